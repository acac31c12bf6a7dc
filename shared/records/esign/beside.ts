/**
 * The electronic signatures that an answer has beside its checkpoints, of all their versions, from the transaction that reads the checkpoints. A task
 * without signatures costs the read of one empty range.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import { type SignaturesBeside, shownBlocks } from "../../protocol/esign.ts";
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readEsigned } from "./esign-record.ts";
import { readListed } from "./lists.ts";

/** Each is judged while the caller waits. `signatures` lists all of a task. */
const SHOWN_MAX = 50;

/** `checkpoints`: of this task. */
export async function signaturesBeside(
  reader: Reader,
  of: { readonly tenant: string; readonly task: string },
  checkpoints: readonly Pick<Checkpoint, "metadata" | "compliance">[],
): Promise<SignaturesBeside> {
  const [first] = checkpoints;
  if (first === undefined) return {};
  const shown = new Map(checkpoints.map((one) => [one.metadata.checkpoint_id, one]));
  const only = checkpoints.length === 1 ? first.metadata.checkpoint_id : null;
  try {
    const all = await readEsigned(reader, tenantKeys(of.tenant), of.task, only);
    const own = all.filter(({ checkpoint_id }) => shown.has(checkpoint_id));
    if (own.length === 0) return {};
    const leftOut = Math.max(0, own.length - SHOWN_MAX);
    const listed = await readListed(reader, of, own.slice(leftOut), ({ checkpoint_id, version }) => {
      const one = shown.get(checkpoint_id);
      return one?.metadata.version === version ? one.compliance.hash : undefined;
    });
    return {
      electronic_signatures: shownBlocks(listed),
      ...(leftOut > 0 && { electronic_signatures_left_out: leftOut }),
    };
  } catch (error) {
    // Their key may be away while that of the task is here. They must not hide the checkpoint, and not be missing in silence.
    if (error instanceof FleetError) return { electronic_signatures_unread: error.code };
    throw error;
  }
}
