// The records of a mission in the parts in which they are imported.

import type { ImportRecordsCommand } from "../../../../shared/protocol/commands.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { ExportedTask } from "./exported-tasks.ts";

export type RecordBatch = Pick<ImportRecordsCommand, "index" | "records">;

/** From the record `from` on. Each batch has as many records as one command may. */
export async function* recordBatches(
  { records: places, readRecord }: Pick<ExportedTask, "records" | "readRecord">,
  from: number,
): AsyncGenerator<RecordBatch> {
  let [index, chars] = [from, 0];
  let records: RecordBatch["records"] = [];
  for (const place of places.slice(from)) {
    const record = await readRecord(place);
    const { length } = record.bytes;
    const isFull = records.length === LIMITS.import_records_count_max;
    if (records.length > 0 && (isFull || chars + length > LIMITS.import_records_chars_max)) {
      yield { index, records };
      [index, records, chars] = [index + records.length, [], 0];
    }
    records.push(record);
    chars += length;
  }
  if (records.length > 0) yield { index, records };
}
