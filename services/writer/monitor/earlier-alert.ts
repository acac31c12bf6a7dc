/** The newest alert of a kind that concerns no task. Its position is part of the id of the next one, so that all writers give that the same id. */
import type { StreamView } from "../../../shared/bus/bus.ts";
import { type Alert, type AlertType, NO_TASK, readAlert } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { Severity } from "../../../shared/protocol/severity.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";

/** The number of alerts without a task among which it is looked up. */
const LOOKUP_COUNT = 100;
/** The same with the messages that are no alerts: clients can make JetStream store its confirmations among them. */
const SCAN_COUNT = 5_000;

export interface EarlierAlert {
  /** Its position in the stream of alerts. 0: there is none. */
  readonly seq: number;
  readonly atMs: number;
}

export interface AlertKind<T extends AlertType> {
  readonly type: T;
  readonly severity: Severity;
  readonly matches: (data: Alert<T>["data"]) => boolean;
}

export async function newestAlert<T extends AlertType>(
  alerts: StreamView,
  { type, severity, matches }: AlertKind<T>,
): Promise<EarlierAlert> {
  const filter = SUBJECTS.alertsOf({ tenant: DEFAULT_TENANT, severity, task: NO_TASK });
  let before: number | undefined;
  for (let scanned = 0, found = 0; scanned < SCAN_COUNT && found < LOOKUP_COUNT; scanned += LOOKUP_COUNT) {
    const slice = await alerts.newest({ filter, limit: LOOKUP_COUNT, before });
    for (const { seq, body } of slice) {
      const alert = parsed(body);
      if (alert === null) continue;
      if (alert.type === type && matches(alert.data as Alert<T>["data"]))
        return { seq, atMs: Date.parse(alert.time) };
      found += 1;
    }
    if (slice.length < LOOKUP_COUNT) break;
    before = slice.at(-1)?.seq;
  }
  return { seq: 0, atMs: 0 };
}

/** null for a message that no service of the fleet can have written. */
function parsed(body: Uint8Array) {
  try {
    return readAlert(JSON.parse(Buffer.from(body).toString()));
  } catch {
    return null;
  }
}
