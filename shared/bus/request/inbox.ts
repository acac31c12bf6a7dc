/**
 * Where an answer goes. A connection that acts for several callers asks each question from the inbox of its
 * caller, because services answer no other inbox.
 */
import { callerOf, SUBJECTS } from "../../protocol/subjects.ts";

/** The prefix of the inbox for a request: its caller's, or `ownPrefix` if the subject names no caller. */
export function inboxPrefixFor(subject: string, ownPrefix: string): string {
  const from = callerOf(subject);
  return from === undefined ? ownPrefix : SUBJECTS.inboxPrefix(from.tenant, from.caller);
}
