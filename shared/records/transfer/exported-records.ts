/**
 * The records of a mission as they are on disk, for an export. A page has the head of the task of the same moment, so a caller that asks for
 * what has changed since its first page gets all records of one moment at last, however much the mission changes meanwhile.
 */
import { statedRecordsOf } from "../../lifecycle/trail/stated-record.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { MissionRecordPage } from "../../protocol/mission-queries.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Bytes, KeyRange, Reader } from "../../store/store.ts";
import { readAudit } from "../audit/audit.ts";
import { readTask } from "../checkpoint/lookup.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import {
  LOCKS_NAME,
  MISSION_NAME,
  mailboxRecordName,
  recordKeyOf,
  sortieName,
} from "../mission/sealed-record.ts";
import { redactedView } from "../task/task-view.ts";

/** The number of rows in one read. */
const SLICE = 64;
/** The size of the bytes on a page as Base64; the last record may exceed it. */
const PAGE_CHARS = LIMITS.reply_bytes_max / 2;
/** With more entries than this, all records are read in place of those that the entries name. */
const ENTRIES_MAX = 2_000;

interface Row {
  readonly name: string;
  readonly key: Bytes;
  readonly value: Bytes;
}

/** Throws NOT_FOUND without such a task. A damaged record is answered as it is: the caller compares it with the trail. */
export async function readExportedRecords(
  reader: Reader,
  tenant: string,
  { mission_id: task, after_seq: since, cursor }: QueryParams<"mission_records">,
): Promise<MissionRecordPage> {
  const head = await readTask(reader, tenant, task);
  if (head === null)
    throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: task } });
  const keys = tenantKeys(tenant);
  const kind = `mission_records/${tenant}/${task}/${since ?? ""}`;
  const last = cursor === undefined ? null : Buffer.from(openCursor(kind, cursor), "hex");
  const isNamed = since !== undefined && head.audit_seq - since <= ENTRIES_MAX;
  const rows = isNamed
    ? rowsOf(reader, keys, task, { names: await namesSince(reader, keys, task, since), last })
    : allRows(reader, keys, task, last);
  const page = { task: redactedView(head), records: [] as MissionRecordPage["records"] };
  let chars = 0;
  for await (const { name, key, value } of rows) {
    const bytes = Buffer.from(value).toString("base64");
    page.records.push({ name, bytes });
    chars += bytes.length;
    if (chars >= PAGE_CHARS) return { ...page, cursor: sealCursor(kind, Buffer.from(key).toString("hex")) };
  }
  return page;
}

/** In the order of their keys, after the last one. */
async function* allRows(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  last: Bytes | null,
): AsyncGenerator<Row> {
  const one = (key: Bytes): KeyRange => ({ begin: key, end: after(key) });
  const parts = [
    { range: one(keys.missionLocks(task)), nameOf: () => LOCKS_NAME },
    { range: keys.mailboxRecords(task), nameOf: mailboxRecordName },
    { range: one(keys.mission(task)), nameOf: () => MISSION_NAME },
    { range: keys.sorties(task), nameOf: (key: Bytes) => sortieName(endingName(key)) },
  ].sort((a, b) => Buffer.compare(a.range.begin, b.range.begin));
  for (const { range, nameOf } of parts) {
    if (last !== null && Buffer.compare(last, range.end) >= 0) continue;
    const isInside = last !== null && Buffer.compare(last, range.begin) >= 0;
    for (let begin = isInside ? after(last) : range.begin; ; ) {
      const { rows, more } = await reader.getRange({ begin, end: range.end }, { limit: SLICE });
      for (const { key, value } of rows) yield { name: nameOf(key), key, value };
      const end = rows.at(-1);
      if (!more || end === undefined) break;
      begin = after(end.key);
    }
  }
}

async function* rowsOf(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  { names, last }: { readonly names: ReadonlySet<string>; readonly last: Bytes | null },
): AsyncGenerator<Row> {
  const places = [...names]
    .flatMap((name) => {
      const key = recordKeyOf(keys, task, name);
      return key === null || (last !== null && Buffer.compare(key, last) <= 0) ? [] : [{ name, key }];
    })
    .sort((a, b) => Buffer.compare(a.key, b.key));
  for (let from = 0; from < places.length; from += SLICE) {
    const some = places.slice(from, from + SLICE);
    const values = await reader.getMany(some.map(({ key }) => key));
    for (const [i, place] of some.entries()) {
      const value = values[i];
      if (value !== undefined) yield { ...place, value };
    }
  }
}

/** The records that the entries after this one have written. */
async function namesSince(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  since: number,
): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (let from = since + 1; ; ) {
    const { entries, more } = await readAudit(reader, keys, task, from, LIMITS.audit_limit_max);
    for (const { entry } of entries) {
      for (const { name } of statedRecordsOf(JSON.parse(entry) as Record<string, unknown>)) names.add(name);
    }
    const last = entries.at(-1);
    if (!more || last === undefined) return names;
    from = last.seq + 1;
  }
}
