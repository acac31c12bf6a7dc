/**
 * What the fleet's own nats-server refuses, for the access log: connections without valid credentials, and subjects that the credentials do not
 * permit. No service of the fleet sees these requests; the server writes a line for each.
 */
import { connectBus } from "../../../shared/bus/connection.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { DenialReporter, type NotedDenial } from "../../../shared/sdk/access-log/denial-reporter.ts";
import type { StandaloneConfig } from "../config.ts";
import { ownCredentials } from "../remote/own-gateway.ts";

/** The name in the access log of what the server refuses. */
export const BUS_NAME = "fleet-bus";

const CLIENT = /^(?<address>\[[0-9A-Fa-f:.]+\]|[0-9.]+):\d+ - cid:\d+ - /;
/**
 * The label of the user is the last quoted text before the refusal. A client chooses the one before it, its name, in which it can
 * write anything, also quotes: the server formats the name together with the subject.
 */
const VIOLATION = /^.* - "(?<user>[^"\\]*)" - (?<kind>Publish|Subscription) Violation\b/;
const NKEY = /\/nkey:(U[A-Z2-7]{55})$/;
/** A connection without valid credentials has no name in its line yet, or is one that presents others later. */
const UNAUTHENTICATED = /^\S+ - cid:\d+ - (?:"(?:[^"\\]|\\.)*" - ){0,2}authentication error\b/;

/** undefined: the line reports no refusal. The subject is not repeated: a client can write anything into it. */
export function refusalIn(line: string): NotedDenial | undefined {
  const address = CLIENT.exec(line)?.groups?.address?.replace(/^\[|\]$/g, "");
  if (address === undefined) return undefined;
  const { user = "", kind } = VIOLATION.exec(line)?.groups ?? {};
  if (kind !== undefined) {
    const nkey = NKEY.exec(user)?.[1];
    const op = kind === "Publish" ? "bus.publish" : "bus.subscribe";
    return { op, reason: "permission", address, credential: nkey === undefined ? "none" : `nkey ${nkey}` };
  }
  if (!UNAUTHENTICATED.test(line)) return undefined;
  return { op: "bus.connect", reason: "credentials", address, credential: "none" };
}

interface ReportedBus {
  readonly config: StandaloneConfig;
  readonly home: string;
  readonly fleet: string;
  /** Of the running server, with its authority. */
  readonly address: () => { readonly url: string; readonly caFile: string | undefined };
}

/** The server may refuse clients before the services of the fleet run; that is reported then. */
export function openBusRefusals(
  { log, clock }: ServiceContext,
  { config, home, fleet, address }: ReportedBus,
): { readonly onLine: (line: string) => void; readonly stop: () => Promise<void> } {
  const reporter = new DenialReporter({
    async connect() {
      const credentials = await ownCredentials(home, config.auth, BUS_NAME);
      const { url, caFile } = address();
      return connectBus({
        ...{ url, name: BUS_NAME, tenant: DEFAULT_TENANT, identity: BUS_NAME, log },
        expected: { fleet, home },
        ...(caFile !== undefined && { tls: { caFile } }),
        ...(credentials != null && { credentials }),
      });
    },
    ...{ tenant: DEFAULT_TENANT, name: BUS_NAME, clock, log },
  });
  return {
    onLine(line) {
      const refusal = refusalIn(line);
      if (refusal !== undefined) reporter.note(refusal);
    },
    stop: reporter.stop,
  };
}
