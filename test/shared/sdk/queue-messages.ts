// Reads the messages of the queue directly from its stream, without a consumer.

import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { STREAMS } from "../../../shared/protocol/subjects.ts";

export interface QueueMessage {
  readonly subject: string;
  readonly body: { readonly command_id: string; readonly after?: string };
  readonly text: string;
  readonly messageId: string;
}

/** The messages of one task, in order. */
export async function queueMessagesOf(url: string, task: string): Promise<QueueMessage[]> {
  const admin = await connect({ servers: url });
  try {
    const { streams } = await jetstreamManager(admin);
    const { state } = await streams.info(STREAMS.queue);
    const seqs = Array.from({ length: state.messages }, (_, i) => state.first_seq + i);
    const all = await Promise.all(seqs.map((seq) => streams.getMessage(STREAMS.queue, { seq })));
    return all.flatMap((message) => {
      if (!message?.subject.includes(`.${task}.`)) return [];
      const text = message.string();
      const messageId = message.header.get("Nats-Msg-Id");
      return [{ subject: message.subject, body: JSON.parse(text), text, messageId }];
    });
  } finally {
    await admin.close();
  }
}
