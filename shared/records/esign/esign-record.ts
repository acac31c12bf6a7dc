/** The stored form of an electronic signature, and its row in the index of signed versions. */
import { type Esigned, esignedSchema } from "../../protocol/esign.ts";
import { checkpointIdSchema } from "../../protocol/ids.ts";
import type { Bytes, RangePage, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, readable } from "../kv/codec.ts";
import { esignedCheckpoint } from "../kv/evidence-keys.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

export interface StoredEsignature {
  readonly checkpoint_id: string;
  readonly version: number;
  readonly signed: Esigned;
}

/** More are refused: retention and scrub read the index of a task at once. */
export const ESIGNATURES_OF_TASK = 1_000;

interface EsignPosition {
  /** The audit entry that records it. */
  readonly seq: number;
  readonly statementHash: string;
}

export function writeEsignature(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  { seq, statementHash, ...stored }: StoredEsignature & EsignPosition,
): void {
  const { checkpoint_id: id, version } = stored;
  tx.set(keys.esignature(task, seq), encodeChecked(stored));
  tx.set(keys.esigned(task, id, statementHash), encodeChecked([id, version, seq]));
}

/** null: it is lost or damaged. */
export function decodeEsignature(value: Bytes | undefined): StoredEsignature | null {
  const { checkpoint_id, version, signed } = (storedIn(value) ?? {}) as Record<string, unknown>;
  const parsed = esignedSchema.safeParse(signed);
  if (!isId(checkpoint_id) || !isNumber(version) || !parsed.success) return null;
  return { checkpoint_id, version, signed: parsed.data };
}

/** A row of the index. */
export interface EsignedVersion {
  readonly checkpoint_id: string;
  readonly version: number;
  readonly seq: number;
}

/** In the order of their entries; `id` null: of all checkpoints. Damaged rows are left out, which the scrub finds. */
export async function readEsigned(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string | null = null,
): Promise<readonly EsignedVersion[]> {
  const { rows } = await reader.getRange(keys.esignedOf(task, id), { limit: ESIGNATURES_OF_TASK });
  return decodeRows(rows);
}

const decodeRows = (rows: RangePage["rows"]): EsignedVersion[] =>
  rows.flatMap(({ value }) => decodeEsigned(value) ?? []).sort((a, b) => a.seq - b.seq);

/** Rows that are read of all tasks from the first to the last of several ones. Their keys and values are not encrypted. */
const ROWS_BETWEEN = 100;

/** Those of several tasks, and of others between them, in one read. Where more lie between them, in a read for each of the tasks. */
export async function readEsignedBetween(
  reader: Reader,
  keys: TenantKeys,
  tasks: readonly string[],
): Promise<readonly EsignedVersion[]> {
  const ranges = tasks.toSorted().map((task) => keys.esignedOf(task, null));
  const span = { begin: ranges[0]!.begin, end: ranges.at(-1)!.end };
  const { rows, more } = await reader.getRange(span, { limit: ROWS_BETWEEN });
  if (!more) return decodeRows(rows);
  return (await Promise.all(tasks.map((task) => readEsigned(reader, keys, task)))).flat();
}

/** The signed checkpoints of a task, by the keys of their rows: a damaged row must not end the protection. */
export async function readSignedIds(
  reader: Reader,
  keys: TenantKeys,
  task: string,
): Promise<ReadonlySet<string>> {
  const { rows } = await reader.getRange(keys.esignedOf(task, null), { limit: ESIGNATURES_OF_TASK });
  return new Set(rows.map(({ key }) => esignedCheckpoint(key)));
}

/** null: the row cannot be read. */
export function decodeEsigned(value: Bytes | undefined): EsignedVersion | null {
  const row = storedIn(value);
  if (!Array.isArray(row)) return null;
  const [checkpoint_id, version, seq] = row as unknown[];
  return isId(checkpoint_id) && isNumber(version) && isNumber(seq) ? { checkpoint_id, version, seq } : null;
}

const storedIn = (value: Bytes | undefined): unknown =>
  value === undefined ? null : readable(() => decodeChecked<unknown>(value));

const isId = (value: unknown): value is string => checkpointIdSchema.safeParse(value).success;
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value);
