// The records of a mission, read over the bus. Unlike versions they are replaced, so all of them are read at one moment, with the head of that
// moment: after the first reading only what has changed since is read again, until one answer has all of that.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine } from "../../../../shared/protocol/export-lines.ts";
import type { CallOptions } from "../../../../shared/sdk/request/request.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import { exportedRecordHash } from "../../../../shared/transfer/record-verifier.ts";

/** Each round reads what was written during the one before. */
const ROUNDS_MAX = 100;

export interface MissionMoment {
  readonly task: Task;
  /** The bytes in Base64, by name. */
  readonly records: ReadonlyMap<string, string>;
}

/** null: the task is no mission. Throws CONFLICT for one that changes faster than it can be read. */
export async function missionMoment(
  client: FleetClient,
  missionId: string,
  call: CallOptions,
): Promise<MissionMoment | null> {
  if (!(await isMission(client, missionId, call))) return null;
  const records = new Map<string, string>();
  let afterSeq: number | undefined;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const query = { ...call, missionId, afterSeq };
    const first = await client.admin.missionRecords(query);
    for (let page = first; ; ) {
      for (const { name, bytes } of page.records) records.set(name, bytes);
      if (page.cursor === undefined) break;
      page = await client.admin.missionRecords({ ...query, cursor: page.cursor });
    }
    if (first.cursor === undefined) return { task: first.task, records };
    afterSeq = first.task.audit_seq;
  }
  throw new FleetError("CONFLICT", "the mission changes faster than it can be read", {
    details: { mission_id: missionId },
  });
}

async function isMission(client: FleetClient, missionId: string, call: CallOptions): Promise<boolean> {
  try {
    return (await client.mission(missionId).state(call)) !== null;
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return true;
    throw error;
  }
}

/** One line for each record that the trail states. `mission` null: the fleet has no record of the mission. */
export function* recordLines(
  newest: ReadonlyMap<string, string>,
  mission: MissionMoment | null,
): Generator<ExportLine> {
  for (const [name, hash] of newest) {
    const bytes = mission?.records.get(name);
    if (bytes === undefined) {
      yield { kind: "record_lost", name, reason: "the fleet does not have it" };
    } else if (exportedRecordHash(bytes) !== hash) {
      yield { kind: "record_lost", name, reason: "its bytes are not those that the audit trail states" };
    } else yield { kind: "record", name, bytes };
  }
}
