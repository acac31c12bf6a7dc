/**
 * The findings of the scrub, each a record under its tenant. The same damage has the same id in every pass,
 * so it is one finding with one alert, however often it is found. A finding that a complete pass does not
 * find again is deleted.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { invalid } from "../../protocol/errors.ts";
import type { ScrubFinding, ScrubFindingPage } from "../../protocol/scrub.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { parseFinding } from "../kv/due-index.ts";
import { after, systemKeys } from "../kv/keyspace.ts";
import type { FoundDamage } from "./scrub-reader.ts";

type Stored = ScrubFinding & {
  /**
   * Whether its alert is published. A quarantined version needs none, because the quarantine has an event.
   */
  readonly told: boolean;
};

export interface KeptFinding extends ScrubFinding {
  readonly tenant: string;
  /** The same as long as the damage exists. */
  readonly id: string;
}

const NAME_CHARS = 16;

function nameOf({ kind, checkpoint_id, version, details }: FoundDamage): string {
  return sha256Hex(JSON.stringify([kind, checkpoint_id, version, details])).slice(0, NAME_CHARS);
}

function decodeFinding(value: Bytes): Stored | null {
  try {
    return decodeChecked<Stored>(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/** Writes the findings of a step. Returns those that are new. */
export async function keepFindings(
  tx: Tx,
  found: readonly FoundDamage[],
  { pass, nowMs }: { readonly pass: number; readonly nowMs: number },
): Promise<readonly FoundDamage[]> {
  const keys = found.map((damage) => systemKeys.finding(damage.tenant, damage.task, nameOf(damage)));
  const values = await tx.getMany(keys);
  const fresh: FoundDamage[] = [];
  for (const [i, damage] of found.entries()) {
    const { tenant: _tenant, task, ...what } = damage;
    const known = values[i] === undefined ? null : decodeFinding(values[i]);
    if (known === null) fresh.push(damage);
    const stored: Stored = {
      ...what,
      task_id: task,
      found_at: known?.found_at ?? new Date(nowMs).toISOString(),
      pass,
      told: known?.told ?? damage.quarantined,
    };
    tx.set(keys[i]!, encodeChecked(stored));
  }
  return fresh;
}

/**
 * Deletes findings that the complete pass `pass` did not find again. `next` is null when all were examined.
 */
export async function deleteResolved(
  tx: Tx,
  pass: number,
  from: Bytes | null,
  limit: number,
): Promise<{ next: Bytes | null; unalerted: number }> {
  const { begin, end } = systemKeys.findings(null);
  const { rows, more } = await tx.getRange({ begin: from === null ? begin : after(from), end }, { limit });
  let unalerted = 0;
  for (const { key, value } of rows) {
    const stored = decodeFinding(value);
    if (stored?.pass === pass) continue;
    if (stored?.told === false) unalerted += 1;
    tx.clear(key);
  }
  return { next: more ? (rows.at(-1)?.key ?? null) : null, unalerted };
}

/** Reads findings without an alert after the key `from`. `next` is null when none follow. */
export async function readUnalerted(
  reader: Reader,
  from: Bytes | null,
  limit: number,
): Promise<{ findings: readonly KeptFinding[]; next: Bytes | null }> {
  const { begin, end } = systemKeys.findings(null);
  const { rows, more } = await reader.getRange(
    { begin: from === null ? begin : after(from), end },
    { limit },
  );
  const findings = rows.flatMap(({ key, value }) => {
    const stored = decodeFinding(value);
    return stored === null || stored.told ? [] : [kept(key, stored)];
  });
  return { findings, next: more ? (rows.at(-1)?.key ?? null) : null };
}

/** Records that the alerts are published. Returns the number of findings for which that was new. */
export async function markAlerted(tx: Tx, findings: readonly KeptFinding[]): Promise<number> {
  const keys = findings.map(({ tenant, task_id, id }) => systemKeys.finding(tenant, task_id, id));
  const values = await tx.getMany(keys);
  let marked = 0;
  for (const [i, key] of keys.entries()) {
    const stored = values[i] === undefined ? null : decodeFinding(values[i]);
    if (stored === null || stored.told) continue;
    tx.set(key, encodeChecked({ ...stored, told: true } satisfies Stored));
    marked += 1;
  }
  return marked;
}

/** A page of the findings of one tenant, by task. */
export async function listFindings(
  reader: Reader,
  tenant: string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): Promise<ScrubFindingPage> {
  const kind = `scrub_findings/${tenant}`;
  const { begin, end } = systemKeys.findings(tenant);
  const from = cursor === undefined ? begin : after(placeIn(kind, cursor, { begin, end }));
  const { rows, more } = await reader.getRange({ begin: from, end }, { limit });
  const findings = rows.flatMap(({ value }) => {
    const stored = decodeFinding(value);
    return stored === null ? [] : [shown(stored)];
  });
  const last = rows.at(-1);
  const isMore = more && last !== undefined;
  return { findings, ...(isMore && { cursor: sealCursor(kind, Buffer.from(last.key).toString("hex")) }) };
}

function placeIn(kind: string, cursor: string, { begin, end }: { begin: Bytes; end: Bytes }): Bytes {
  const key = Buffer.from(openCursor(kind, cursor), "hex");
  if (Buffer.compare(begin, key) <= 0 && Buffer.compare(key, end) < 0) return key;
  throw invalid("cursor", "the cursor of this query's last page, unchanged", cursor);
}

function kept(key: Bytes, stored: Stored): KeptFinding {
  return { ...shown(stored), ...parseFinding(key) };
}

function shown({ told: _told, ...finding }: Stored): ScrubFinding {
  return finding;
}
