// FoundationDB's client library can fail on purpose ("client buggify"), in ways that are rare on real clusters.
import { loadClient } from "../../../shared/store/foundationdb/client.ts";

/** `percent` is how often each failure point fails. Call it once per process, before the first database is opened. */
export async function injectFailures(percent: number): Promise<void> {
  const client = await loadClient();
  client.configNetwork({
    client_buggify_enable: true,
    client_buggify_section_activated_probability: 100,
    client_buggify_section_fired_probability: percent,
  });
}

/** A commit whose result the library withheld takes effect within this time, or never. */
export const COMMIT_SETTLED_MS = 6_000;
