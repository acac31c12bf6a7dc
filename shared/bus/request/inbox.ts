/**
 * Where an answer goes. A connection that acts for several callers asks each question from the inbox of its
 * caller, because services answer no other inbox. Other clients answer in an inbox of their own.
 */
import { callerOf, isForClients, SUBJECTS } from "../../protocol/subjects.ts";

/** The prefix of the inbox for a request: its caller's, or `ownPrefix` if the subject names no caller. */
export function inboxPrefixFor(subject: string, ownPrefix: string): string {
  const from = callerOf(subject);
  if (from === undefined) return ownPrefix;
  const { inboxPrefix, clientInboxPrefix } = SUBJECTS;
  return (isForClients(subject) ? clientInboxPrefix : inboxPrefix)(from.tenant, from.caller);
}
