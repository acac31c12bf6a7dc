/**
 * The ends of exported tasks, compared with the store. Without it, a bundle whose maker left out the newest entries of a
 * task, or a task, would be sealed like a whole one.
 */
import { createHash } from "node:crypto";
import { chainEnd, chainUnreadable } from "../../integrity/chain.ts";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { after, parseTask, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { auditRecordIn } from "./audit.ts";

/** Rows that are read at once. */
const SLICE = 500;

type Ends = NonNullable<QueryParams<"export_record">["ends"]>;

/** What the seal states about the ends of the tasks. */
export interface ComparedEnds {
  /** SHA-256 of the lines of the tasks, then of those that could not be read, each in their order. */
  readonly ends: string;
  readonly extent: "tenant" | "tasks";
}

/** Throws INVALID when a task had a later entry at `exported_at`, or when the tenant had another task. */
export async function compareEnds(
  transactions: Transactions,
  tenant: string,
  { exported_at, tasks, extent, unreadable }: Ends,
): Promise<ComparedEnds> {
  const keys = tenantKeys(tenant);
  // An entry states the time at which its transaction began, by the clock of another machine.
  const isLater = (entry: string): boolean =>
    Date.parse((JSON.parse(entry) as { readonly at: string }).at) >=
    Date.parse(exported_at) - LIMITS.clock_skew_ms_max;
  const digest = createHash("sha256");
  for (let from = 0; from < tasks.length; from += SLICE) {
    const slice = tasks.slice(from, from + SLICE);
    const rows = await transactions.read("export_ends", (reader) =>
      reader.getMany(slice.flatMap(({ task_id: id, seq }) => [keys.audit(id, seq), keys.audit(id, seq + 1)])),
    );
    for (const [i, { task_id, seq, hash }] of slice.entries()) {
      const [last, next] = [rows[2 * i], rows[2 * i + 1]];
      const isEntry = last !== undefined && auditRecordIn(seq, last).hash === hash;
      const isEnd = next === undefined || isLater(auditRecordIn(seq + 1, next).entry);
      if (!isEntry || !isEnd)
        throw invalid(`ends.tasks[${from + i}]`, "the newest entry of the task at exported_at", task_id);
      digest.update(chainEnd(task_id, { seq, hash }));
    }
  }
  // Else a task could be left out of the comparison, and of the bundle too.
  for (const task of unreadable) digest.update(chainUnreadable(task));
  const known = new Set([...tasks.map(({ task_id }) => task_id), ...unreadable]);
  if (extent === "tenant") await requireAll(transactions, keys, { known, isLater });
  return { ends: digest.digest("hex"), extent };
}

interface Compared {
  readonly known: ReadonlySet<string>;
  readonly isLater: (entry: string) => boolean;
}

async function requireAll(
  transactions: Transactions,
  keys: TenantKeys,
  { known, isLater }: Compared,
): Promise<void> {
  let { begin, end } = keys.tasks();
  for (;;) {
    const range = { begin, end };
    const { rows, more } = await transactions.read("export_ends", (reader) =>
      reader.getRange(range, { limit: SLICE }),
    );
    const others = rows.map(({ key }) => parseTask(key)).filter((task) => !known.has(task));
    const firsts = await transactions.read("export_ends", (reader) =>
      reader.getMany(others.map((task) => keys.audit(task, 1))),
    );
    const missing = others.find((_, i) => {
      const first = firsts[i];
      return first === undefined || !isLater(auditRecordIn(1, first).entry);
    });
    if (missing !== undefined) throw invalid("ends.tasks", "all tasks of the tenant at exported_at", missing);
    const last = rows.at(-1);
    if (!more || last === undefined) return;
    begin = after(last.key);
  }
}
