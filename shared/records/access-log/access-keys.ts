/**
 * The keys of the access log. `access_blocks`, seq: a block of entries, chained by hash. `access_chain`: the newest block, and the last one that
 * retention has removed. `access_sessions`, session: the newest block of a process. `access_tasks`, task, seq: empty; the block has entries about the
 * task. The signatures of the blocks are among those of the commits.
 */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, name, number } from "../kv/key-elements.ts";

export const ACCESS_SUBSPACES = ["access_blocks", "access_chain", "access_sessions", "access_tasks"] as const;
type AccessSubspace = (typeof ACCESS_SUBSPACES)[number];

export function accessKeys(at: (subspace: AccessSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    accessBlock: (seq: number): Bytes => at("access_blocks", number(seq)),
    accessBlocks: (): KeyRange => children(at("access_blocks")),
    accessChain: (): Bytes => at("access_chain"),
    accessSession: (session: string): Bytes => at("access_sessions", element(session)),
    accessSessions: (): KeyRange => children(at("access_sessions")),
    accessTask: (task: string, seq: number): Bytes => at("access_tasks", name(task), number(seq)),
  };
}
