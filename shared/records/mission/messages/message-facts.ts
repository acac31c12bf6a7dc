/** The event and the audit facts of a change of a mailbox. Neither holds a subject or a body. */
import { type MailboxChange, missingRecipients } from "../../../lifecycle/mission/mailbox.ts";
import type { AuditFacts, EventFact } from "../../../lifecycle/transition.ts";

export function statedMailboxChange(
  mission_id: string,
  change: MailboxChange,
): { readonly event: EventFact; readonly facts: AuditFacts } {
  switch (change.op) {
    case "message_send": {
      const { message_id, from, to, kind, deadline } = change.message;
      const data = { mission_id, message_id, from, kind, to: [...to], deadline };
      return {
        facts: { message_id, from, recipients: [...to], kind, deadline },
        event: { type: "message_sent", data },
      };
    }
    case "message_ack": {
      const { message_id, from, state } = change.message;
      const { agent_id } = change;
      return {
        facts: { message_id, agent_id, message_state: state },
        event: { type: "message_acknowledged", data: { mission_id, message_id, from, agent_id, state } },
      };
    }
    case "message_cancel": {
      const { message_id, from } = change.message;
      const { agent_id } = change;
      return {
        facts: { message_id, agent_id },
        event: { type: "message_cancelled", data: { mission_id, message_id, from, agent_id } },
      };
    }
    case "message_fail": {
      const { message_id, from } = change.message;
      const missing = missingRecipients(change.message);
      return {
        facts: { message_id, missing },
        event: { type: "message_failed", data: { mission_id, message_id, from, missing } },
      };
    }
    case "message_requeue": {
      const { messages, checkpoint_id } = change;
      const message_ids = messages.map(({ message_id }) => message_id);
      const to = [...new Set(messages.flatMap(missingRecipients))];
      return {
        facts: { snapshot: checkpoint_id, message_ids },
        event: { type: "messages_requeued", data: { mission_id, checkpoint_id, message_ids, to } },
      };
    }
    case "mailbox_subscribe": {
      const { agent_id } = change;
      const events = [...change.events];
      return {
        facts: { agent_id, events },
        event: { type: "mailbox_subscribed", data: { mission_id, agent_id, events } },
      };
    }
  }
}
