/**
 * Verifies the access log of a tenant: its blocks have no gaps, each has the hash of the one before and its signature, and the last block that
 * retention has removed is stated by a block that is left. Retention may remove blocks during a pass; the verification of the log then begins again.
 */
import { CHAIN_START, createChainVerifier, entryHash } from "../../integrity/chain.ts";
import { ACCESS_CHAIN } from "../../protocol/access-log.ts";
import { NO_TASK } from "../../protocol/alerts.ts";
import type { Bytes } from "../../store/store.ts";
import { readAccessChain } from "../access-log/append.ts";
import { readBlock } from "../access-log/block.ts";
import { tasksIn } from "../access-log/task-index.ts";
import type { ChainHead } from "../audit/audit.ts";
import { isDamage } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { CHAIN_PROBLEMS, ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { readEntry } from "./trail/entries.ts";
import { verifyNoneAfter, verifySignatures } from "./trail/signatures.ts";

/** The blocks in one read. */
const SLICE = 16;

export interface AccessLogAt {
  /** The last verified block. */
  readonly seq: number;
  readonly hash: string;
  /** The end of the chain when its verification began. */
  readonly through: ChainHead;
  /** The last removed block then. */
  readonly start: ChainHead;
  /** The newest statement of removed blocks so far. */
  readonly pruned: ChainHead;
  /** The first block that the index of tasks has. Absent: an earlier version of the fleet has begun the verification. */
  readonly indexed?: number;
  readonly found: number;
}

const NONE: ChainHead = { seq: 0, hash: CHAIN_START };

/** Returns where the next call continues; null: the log is verified. `from` null: the log begins. */
export async function verifyAccessLog(
  step: ScrubStep,
  tenant: string,
  from: AccessLogAt | null,
): Promise<AccessLogAt | null> {
  const scrub = new TaskScrub(step, tenant, NO_TASK, { canMark: false, found: from?.found ?? 0 });
  const at = await placeIn(scrub, from);
  if (at === null) return null;
  const { keys, reader } = scrub;
  const range = { begin: keys.accessBlock(at.seq + 1), end: keys.accessBlock(at.through.seq + 1) };
  const { rows } = await reader.getRange(range, { limit: SLICE });
  const verifier = createChainVerifier(at);
  const blocks = rows.map(({ key, value }) => ({ seq: parseSeq(key), read: readEntry(value) }));
  let { pruned } = at;
  for (const { seq, read: block } of blocks) {
    verifier.add({ seq, entry: block?.text ?? "" });
    const facts = block?.facts as Readonly<Record<string, unknown>> | undefined;
    if (facts !== undefined && facts.tenant !== tenant) note(scrub, `block ${seq} is of another tenant`);
    if (isHead(facts?.pruned)) pruned = facts.pruned;
  }
  await verifySignatures(scrub, ACCESS_CHAIN, blocks);
  for (const { key, value } of rows)
    if (at.indexed !== undefined && parseSeq(key) >= at.indexed)
      await verifyIndex(scrub, parseSeq(key), value);
  const isLast = rows.length < SLICE;
  const { seq, hash } = verifier.reached();
  const { problems } = isLast ? verifier.finish(at.through) : verifier.reached();
  for (const one of problems) note(scrub, `block ${one.seq}: ${CHAIN_PROBLEMS[one.problem]}`);
  if (!isLast) return { ...at, seq, hash, pruned, found: scrub.found };
  await verifyNoneAfter(scrub, ACCESS_CHAIN, at.through.seq);
  if (pruned.seq !== at.start.seq || pruned.hash !== at.start.hash)
    note(scrub, "the first blocks are gone, and no block states that retention has removed them");
  return null;
}

/** null: the tenant has no access log. */
async function placeIn(scrub: TaskScrub, from: AccessLogAt | null): Promise<AccessLogAt | null> {
  const { reader, keys } = scrub;
  const chain = await chainOf(scrub);
  const start = chain?.start ?? NONE;
  if (from !== null && chain !== null && start.seq === from.start.seq) return from;
  const { rows } = await reader.getRange(keys.accessBlocks(), { limit: 1, reverse: true });
  const last = rows[0] === undefined ? 0 : parseSeq(rows[0].key);
  if (chain === null) {
    const isLost = (await reader.get(keys.accessChain())) === undefined;
    if (!isLost) note(scrub, "the record of the chain cannot be read");
    else if (last > 0) note(scrub, "the record of the chain is lost");
    return null;
  }
  if (!isHead(chain)) {
    note(scrub, "the record of the chain cannot be read");
    return null;
  }
  if (last > chain.seq) note(scrub, "the record of the chain is older than the newest block");
  const through = { seq: chain.seq, hash: chain.hash };
  const indexed = chain.indexed ?? chain.seq + 1;
  return { ...start, through, start, pruned: NONE, indexed, found: scrub.found };
}

/** Without its row in the index a block is left out of the list of a task. */
async function verifyIndex(scrub: TaskScrub, seq: number, value: Bytes): Promise<void> {
  const tasks = tasksIn(readBlock({ value }).entries);
  const rows = await scrub.reader.getMany(tasks.map((task) => scrub.keys.accessTask(task, seq)));
  const lost = tasks.filter((_task, i) => rows[i] === undefined);
  if (lost.length > 0) note(scrub, `block ${seq}: the index of tasks lacks it for ${lost.length} of them`);
}

/** null: there is none, or it is damaged. */
async function chainOf({ reader, tenant }: TaskScrub): ReturnType<typeof readAccessChain> {
  try {
    return await readAccessChain(reader, tenant);
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}

function isHead(value: unknown): value is ChainHead {
  const { seq, hash } = (value ?? {}) as Partial<ChainHead>;
  return Number.isSafeInteger(seq) && typeof hash === "string";
}

/** The chain of the tenant states a block of the log: it must be that block, unless retention has removed it. */
export async function verifyStatedBlock(scrub: TaskScrub, subject: unknown): Promise<void> {
  if (!isStatement(subject)) return;
  const { reader, tenant } = scrub;
  const { block: seq, hash } = subject;
  const chain = await chainOf(scrub);
  if (seq <= (chain?.start?.seq ?? 0)) return;
  const read = readEntry(await reader.get(tenantKeys(tenant).accessBlock(seq)));
  if (read === null || entryHash(read.text) !== hash)
    note(scrub, `block ${seq} is not the one that the chain of the tenant states`);
}

function isStatement(subject: unknown): subject is { readonly block: number; readonly hash: string } {
  const { block, hash } = (subject ?? {}) as { readonly block?: unknown; readonly hash?: unknown };
  return Number.isSafeInteger(block) && typeof hash === "string";
}

function note(scrub: TaskScrub, details: string): void {
  scrub.note(ofTask("access_log", details));
}
