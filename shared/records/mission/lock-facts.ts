/** The event and the audit facts of a change of a lock. The trail holds no purpose, which is a free text. */
import type { LockChange } from "../../lifecycle/mission/locks.ts";
import type { AuditFacts, EventFact } from "../../lifecycle/transition.ts";

interface StatedChange {
  readonly event: EventFact;
  readonly facts: AuditFacts;
}

export function statedChange(mission_id: string, change: LockChange): StatedChange {
  const { path } = change.lock;
  const { lock_id, agent_id, sortie_id } = "waiter" in change ? change.waiter : change.lock;
  const named = { path, lock_id, agent_id, sortie_id };
  const { fence, expires_at, agent_id: held_by } = change.lock;
  const data = { mission_id, ...named };
  switch (change.op) {
    case "lock_acquire":
      return {
        facts: { ...named, lock_fence: fence, expires_at },
        event: { type: "lock_acquired", data: { ...data, fence, expires_at } },
      };
    case "lock_renew":
      return {
        facts: { ...named, lock_fence: fence, expires_at },
        event: { type: "lock_renewed", data: { ...data, fence, expires_at } },
      };
    case "lock_release": {
      const { reason } = change;
      return {
        facts: { ...named, lock_fence: fence, reason },
        event: { type: "lock_released", data: { ...data, fence, reason } },
      };
    }
    case "lock_wait": {
      const { deadline } = change.waiter;
      return {
        facts: { ...named, held_by, deadline },
        event: { type: "lock_waiting", data: { ...data, held_by, deadline } },
      };
    }
    case "lock_timeout":
      return { facts: { ...named, held_by }, event: { type: "lock_timed_out", data: { ...data, held_by } } };
  }
}
