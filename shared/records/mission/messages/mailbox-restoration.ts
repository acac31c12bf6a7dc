/** The mailbox after a resumption: messages of the snapshot are queued again, and holders of locks get a notice. */
import type { LockRestoration } from "../../../lifecycle/mission/lock-restoration.ts";
import type { HeldLock } from "../../../lifecycle/mission/locks.ts";
import { type MessageRestoration, restoreMessages } from "../../../lifecycle/mission/message-restoration.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { MessageSnapshot } from "../../../protocol/mission.ts";
import type { MissionTransaction } from "../mission-transaction.ts";
import { readSnapshotMessages } from "./mailbox-records.ts";

/** The messages of one audit entry. */
const ENTRY_MESSAGES_MAX = 100;

export async function restoreMailbox(
  work: MissionTransaction,
  snapshots: readonly MessageSnapshot[],
  checkpoint: string,
): Promise<MessageRestoration> {
  const { tx, keys, context } = work;
  const present = await readSnapshotMessages(tx, keys, context.actor.task, snapshots);
  const restoration = restoreMessages(snapshots, present);
  const mailbox = await work.mailbox();
  for (let from = 0; from < restoration.requeue.length; from += ENTRY_MESSAGES_MAX) {
    mailbox.requeue(restoration.requeue.slice(from, from + ENTRY_MESSAGES_MAX), checkpoint);
  }
  await work.writeMailbox();
  return restoration;
}

export interface Notified {
  readonly agent_id: string;
  readonly path: string;
  readonly message_id: string;
}

/** One notice for each acquisition of a lock, also if the resumption is repeated (seed 002, "lock held by another agent"). */
export async function notifyHolders(
  work: MissionTransaction,
  { foreign, expired }: LockRestoration,
): Promise<Notified[]> {
  const mailbox = await work.mailbox();
  const notified: Notified[] = [];
  const notify = (lock: HeldLock, key: string, subject: string, body: string): void => {
    const { agent_id, path } = lock;
    const timeout_ms = LIMITS.message_timeout_ms_default;
    const draft = { from: work.coordinator, to: [agent_id], subject: shortened(subject), body, timeout_ms };
    const message = mailbox.notify(`${path} ${lock.fence} ${key}`, draft);
    if (message !== null) notified.push({ agent_id, path, message_id: message.message_id });
  };
  for (const { lock, wanted_by } of foreign) {
    const body = `The mission resumed. ${wanted_by} held ${lock.path} in the checkpoint. Release the file when you are done.`;
    notify(lock, wanted_by, `${wanted_by} needs ${lock.path}`, body);
  }
  for (const lock of expired) {
    const body = `The mission resumed. Your lock on ${lock.path} had expired; you hold the file again until ${lock.expires_at}.`;
    notify(lock, "", `Your lock on ${lock.path} had expired`, body);
  }
  await work.writeMailbox();
  return notified;
}

const shortened = (text: string): string => text.slice(0, LIMITS.message_subject_chars_max);
