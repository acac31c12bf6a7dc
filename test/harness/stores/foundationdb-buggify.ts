// FoundationDB's client library can fail on purpose ("client buggify"), in the ways that real clusters make rare.
import { loadClient } from "../../../shared/store/foundationdb/client.ts";

/** `percent`: how often each place fails. Once per process, before its first database is opened. */
export async function injectFailures(percent: number): Promise<void> {
  const client = await loadClient();
  client.configNetwork({
    client_buggify_enable: true,
    client_buggify_section_activated_probability: 100,
    client_buggify_section_fired_probability: percent,
  });
}

/** A commit whose result the library withheld lands within this time, or never. */
export const LANDED_MS = 6_000;
