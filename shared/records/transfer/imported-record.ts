/**
 * The form of a record of a mission that an import brings. What is stored is read without further checks, so a record must have all members
 * of its kind, and be the one that its name says.
 */
import { type LockTable, NO_LOCKS } from "../../lifecycle/mission/locks.ts";
import { messageId, placeOfMessage } from "../../lifecycle/mission/mailbox.ts";
import type { MissionRecord } from "../../lifecycle/mission/mission.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import type { StoredMissionRecord } from "../../protocol/mission-record.ts";
import { MISSION_RECORD_FORMS } from "../../protocol/mission-record-forms.ts";
import { validate } from "../../protocol/validation.ts";
import type { Bytes } from "../../store/store.ts";
import { UnreadableValue } from "../kv/codec.ts";
import {
  bodyName,
  LOCKS_NAME,
  MAILBOX_NAME,
  MISSION_NAME,
  messageName,
  openRecord,
  recordHash,
  sortieName,
} from "../mission/sealed-record.ts";

/** An imported record, and the hash that the trail of its origin states. */
export interface ImportedRecord {
  readonly name: string;
  readonly value: object;
  readonly hash: string;
}

/** Throws INVALID. */
export function openImportedRecord(
  { name, bytes, hash }: StoredMissionRecord & { readonly hash: string },
  task: string,
  path: string,
): ImportedRecord {
  const stored = Buffer.from(bytes, "base64");
  if (recordHash(stored) !== hash) throw invalid(`${path}.hash`, "the hash of the bytes", hash);
  const value = decoded(stored, path);
  const named = namedAs(name, value, `${path}.bytes`, task);
  if (named !== name) throw invalid(`${path}.name`, named, name);
  return { name, value, hash };
}

/** null: it is not among them. */
export function importedMission(records: readonly ImportedRecord[]): MissionRecord | null {
  const found = records.find(({ name }) => name === MISSION_NAME);
  return found === undefined ? null : (found.value as MissionRecord);
}

export function importedLocks(records: readonly ImportedRecord[]): LockTable {
  const found = records.find(({ name }) => name === LOCKS_NAME);
  return found === undefined ? NO_LOCKS : (found.value as LockTable);
}

function decoded(stored: Bytes, path: string): object {
  try {
    return openRecord<object>(stored).value;
  } catch (error) {
    if (!(error instanceof UnreadableValue) && !(error instanceof FleetError)) throw error;
    throw invalid(`${path}.bytes`, "a record of a mission", error.message);
  }
}

/** The name of a record with this content. Throws INVALID for one without a member of its kind. */
function namedAs(name: string, value: object, path: string, task: string): string {
  const [kind] = name.split("/");
  switch (kind) {
    case MISSION_NAME: {
      const { mission_id } = validate(MISSION_RECORD_FORMS.mission, value, path);
      if (mission_id !== task) throw invalid(`${path}.mission_id`, task, mission_id);
      return MISSION_NAME;
    }
    case LOCKS_NAME:
      validate(MISSION_RECORD_FORMS.locks, value, path);
      return LOCKS_NAME;
    case MAILBOX_NAME:
      validate(MISSION_RECORD_FORMS.mailbox, value, path);
      return MAILBOX_NAME;
    case "sortie":
      return sortieName(validate(MISSION_RECORD_FORMS.sortie, value, path).sortie_id);
    case "message": {
      const { message_id, number: its } = validate(MISSION_RECORD_FORMS.message, value, path);
      if (message_id !== messageId(its)) throw invalid(`${path}.message_id`, messageId(its), message_id);
      return messageName(placeOfMessage(its));
    }
    case "body":
      return bodyName(placeOfMessage(validate(MISSION_RECORD_FORMS.body, value, path).number));
    default:
      return "mission, locks, mailbox, sortie/<id>, message/<place> or body/<place>";
  }
}
