/**
 * The mark in the subject of an offer, which no client can make. JetStream confirms a stored message at the reply address that its sender chose,
 * with the rights of the server, and the stream of offers keeps the newest message of each subject. So a client that could foresee the
 * subject of an offer could replace the offer by a confirmation. All offers of a task have the same mark, so a newer one still replaces the older one.
 */
import { messageIds } from "./message-ids.ts";

export type OfferMark = (tenant: string, task: string) => string;

/** `key`: of the ids of messages, in hex. No id begins with this name. */
export function offerMarks(key: string): OfferMark {
  const { of } = messageIds(key);
  return (tenant, task) => of(`mark of offers ${tenant}/${task}`);
}
