/** The shredding of a task after an entry of its trail. */
import type { TaskShred } from "../../protocol/shred.ts";
import type { TaskRecord } from "../task.ts";
import { type AuditedChange, nullableFact, textFact } from "../trail/facts.ts";

type Rule = (task: TaskRecord, change: AuditedChange) => Partial<TaskRecord>;

export const SHRED_RULES: Readonly<
  Record<"shred_request" | "shred_approve" | "shred_cancel" | "shred_end", Rule>
> = {
  shred_request: ({ updated_at, audit_seq }, change) => ({
    updated_at,
    shred: {
      state: "requested",
      reason: textFact(change, "reason"),
      case: nullableFact(change, "case"),
      requested_by: change.actor,
      requested_at: change.at,
      request_seq: audit_seq + 1,
      expires_at: textFact(change, "expires_at"),
      ...{ approved_by: null, approved_at: null, approve_seq: null, ended_at: null, end_seq: null },
    },
  }),
  shred_approve: ({ updated_at, audit_seq, shred }, { actor, at }) => ({
    updated_at,
    shred: changed(shred, {
      ...{ state: "approved", approved_by: actor, approved_at: at, approve_seq: audit_seq + 1 },
    }),
  }),
  shred_cancel: ({ updated_at }) => ({ updated_at, shred: null }),
  // The texts of failures, blocks and choices are content too.
  shred_end: ({ updated_at, audit_seq, shred, work }, { at }) => ({
    updated_at,
    shred: changed(shred, { state: "shredded", ended_at: at, end_seq: audit_seq + 1 }),
    work: work.kind === "ended" ? work : { kind: "ended", as: "cancelled" },
    budget: null,
    alerted: null,
  }),
};

function changed(shred: TaskShred | null | undefined, to: Partial<TaskShred>): TaskShred | null {
  return shred == null ? null : { ...shred, ...to };
}

/** Whether the shredding was approved: the task accepts no command but a hold. */
export function isShredding({ shred }: Pick<TaskRecord, "shred">): boolean {
  return shred != null && shred.state !== "requested";
}
