/**
 * The electronic signatures that an answer has beside its checkpoints, of all their versions, from the transaction that reads them. An answer about
 * checkpoints without signatures costs the read of one empty range; one about many tasks the read of some rows of the tasks between them.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import { type SignaturesBeside, shownBlocks } from "../../protocol/esign.ts";
import { groupBy } from "../../protocol/group-by.ts";
import type { Reader } from "../../store/store.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type EsignedVersion, readEsigned, readEsignedBetween } from "./esign-record.ts";
import { readListed } from "./lists.ts";

/** Each is judged while the caller waits. `signatures` lists all of a task. */
const SHOWN_MAX = 50;

type Shown = Pick<Checkpoint, "metadata" | "compliance">;

interface OfTask {
  readonly task: string;
  readonly own: readonly EsignedVersion[];
}

export async function signaturesBeside(
  reader: Reader,
  tenant: string,
  checkpoints: readonly Shown[],
): Promise<SignaturesBeside> {
  if (checkpoints.length === 0) return {};
  const shown = new Map(checkpoints.map((one) => [one.metadata.checkpoint_id, one]));
  try {
    const all = await readOf(reader, tenantKeys(tenant), shown);
    if (all.length === 0) return {};
    const kept = newestOf(all);
    const listed = await Promise.all(
      kept.map(({ task, own }) =>
        readListed(reader, { tenant, task }, own, ({ checkpoint_id, version }) => {
          const one = shown.get(checkpoint_id);
          return one?.metadata.version === version ? one.compliance.hash : undefined;
        }),
      ),
    );
    const blocks = shownBlocks(listed.flat());
    const leftOut = all.reduce((count, { own }) => count + own.length, 0) - blocks.length;
    return {
      electronic_signatures: blocks,
      ...(leftOut > 0 && { electronic_signatures_left_out: leftOut }),
    };
  } catch (error) {
    // Their key may be away while that of the task is here. They must not hide the checkpoint, and not be missing in silence.
    if (error instanceof FleetError) return { electronic_signatures_unread: error.code };
    throw error;
  }
}

/** Of each task those of its shown checkpoints, the tasks in the order of the checkpoints. */
async function readOf(
  reader: Reader,
  keys: TenantKeys,
  shown: ReadonlyMap<string, Shown>,
): Promise<OfTask[]> {
  const tasks = groupBy(shown.values(), ({ metadata }) => metadata.task_id);
  const [[task = "", [first, ...others] = []] = []] = tasks;
  const only = others.length === 0 ? (first?.metadata.checkpoint_id ?? null) : null;
  const found =
    tasks.size === 1
      ? await readEsigned(reader, keys, task, only)
      : await readEsignedBetween(reader, keys, [...tasks.keys()]);
  const own = groupBy(
    found.filter(({ checkpoint_id: id }) => shown.has(id)),
    ({ checkpoint_id: id }) => shown.get(id)?.metadata.task_id,
  );
  return [...tasks.keys()].flatMap((task) => {
    const ofTask = own.get(task);
    return ofTask === undefined ? [] : [{ task, own: ofTask }];
  });
}

/** Of a task the newest. Of several tasks, the first ones keep theirs. */
function newestOf(all: readonly OfTask[]): OfTask[] {
  let room = SHOWN_MAX;
  return all.flatMap(({ task, own }) => {
    const kept = own.slice(Math.max(0, own.length - room));
    room -= kept.length;
    return kept.length === 0 ? [] : [{ task, own: kept }];
  });
}
