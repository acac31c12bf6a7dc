/**
 * The queries that answer content, and what an entry of the access log says of an answer. A query that is named neither here nor in `text-reads.ts`
 * answers ids, states, times, hashes and operational facts. A checkpoint that a command answers is in the audit trail, with the command.
 */
import type { AccessEntry } from "../../../shared/protocol/access-log.ts";
import type { Checkpoint } from "../../../shared/protocol/checkpoint.ts";
import type { AnsweredOp } from "../../../shared/protocol/operations.ts";
import type { QueryParams, QueryResults } from "../../../shared/protocol/queries.ts";
import { type ContentReads, type Shown, several } from "./shown.ts";
import { TEXT_READS } from "./text-reads.ts";

function checkpoint({ metadata }: Checkpoint): Shown {
  const { task_id, checkpoint_id, version } = metadata;
  return { task_id, checkpoint_id, version };
}

const orNone = (one: Checkpoint | null): Shown => (one === null ? null : checkpoint(one));

const page = ({ checkpoints }: { readonly checkpoints: readonly Checkpoint[] }): Shown =>
  several(checkpoints.map(({ metadata }) => metadata.task_id));

const ofMission = ({ mission_id }: { readonly mission_id: string }, items: number): Shown =>
  items === 0 ? null : { task_id: mission_id, items };

const READS: ContentReads = {
  get: (_query, result) => checkpoint(result.checkpoint),
  latest: (_query, result) => orNone(result.checkpoint),
  history: (_query, result) => page(result),
  by_agent: (_query, result) => page(result),
  search: (_query, result) => page(result),
  recovery_point: (_query, result) => orNone(result.checkpoint),
  handoff: (_query, { handoff: { task_id, handoff_id } }) => ({ task_id, handoff_id }),
  handoffs: (_query, { handoffs }) => several(handoffs.map(({ task_id }) => task_id)),
  missions: (_query, { missions }) => several(missions.map(({ mission_id }) => mission_id)),
  mission: (_query, { mission }) => ({ task_id: mission.mission_id }),
  sorties: (query, { sorties }) => ofMission(query, sorties.length),
  recovery_context: (query, { recovery_context }) =>
    recovery_context === null ? null : { task_id: query.mission_id },
  resume_preview: (query) => ({ task_id: query.mission_id }),
  // The purpose of a lock is free text.
  locks: (query, { locks }) => ofMission(query, locks.length),
  mission_records: (query, { records }) => ofMission(query, records.length),
  mailbox: (query, { messages }) => ofMission(query, messages.length),
  messages: (query, { messages }) => ofMission(query, messages.length),
  artifact_read: ({ sha256 }) => ({ sha256 }),
  // The session of the caller itself is what it has sent.
  turn_event: (_query, { previous }) =>
    previous === null ? null : { ...(previous.task_id !== null && { task_id: previous.task_id }) },
};

/** Whether all that the query answers is content. */
export function isContentRead(op: string): boolean {
  return Object.hasOwn(READS, op);
}

/** null: the answer has no content. */
export function shownContent<Op extends AnsweredOp>(
  op: Op,
  params: QueryParams<Op>,
  result: QueryResults[Op],
): Shown {
  const read: ContentReads[Op] = READS[op] ?? TEXT_READS[op];
  return read === undefined ? null : read(params, result);
}

/** The ids of what a caller has asked for, where the answer is an error. */
export function askedFor(body: unknown): Pick<AccessEntry, "task_id" | "checkpoint_id" | "handoff_id"> {
  const { task_id, mission_id, checkpoint_id, handoff_id } = (body ?? {}) as Record<string, unknown>;
  return {
    ...idMember("task_id", task_id ?? mission_id),
    ...idMember("checkpoint_id", checkpoint_id),
    ...idMember("handoff_id", handoff_id),
  };
}

/** A text that is no id may have content, or be of any length. */
const ID = /^[A-Za-z0-9_-]{1,64}$/;

function idMember<Name extends string>(name: Name, value: unknown): { readonly [N in Name]?: string } {
  return typeof value === "string" && ID.test(value) ? ({ [name]: value } as { [N in Name]: string }) : {};
}
