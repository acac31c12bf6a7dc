/**
 * The keys of sessions. `sessions`, agent, session: times of its turns, and what was done. `session_folders`, hash of a folder, or of a machine and a
 * folder: the newest session in the folder. `task_sessions`, task, agent, session: empty; the newest event of the session names the task.
 */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, name } from "../kv/key-elements.ts";

export const SESSION_SUBSPACES = ["sessions", "session_folders", "task_sessions"] as const;
type SessionSubspace = (typeof SESSION_SUBSPACES)[number];

export function sessionKeys(at: (subspace: SessionSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    session: (agent: string, session: string): Bytes => at("sessions", name(agent), name(session)),
    sessions: (): KeyRange => children(at("sessions")),
    sessionsOf: (agent: string): KeyRange => children(at("sessions", name(agent))),
    sessionFolders: (): KeyRange => children(at("session_folders")),
    sessionFolder: (hash: string): Bytes => at("session_folders", element(hash)),
    taskSession: (task: string, agent: string, session: string): Bytes =>
      at("task_sessions", name(task), name(agent), name(session)),
    taskSessions: (task: string): KeyRange => children(at("task_sessions", name(task))),
  };
}
