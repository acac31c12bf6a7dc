/**
 * The writer's commands: from a request, direct or out of the queue, to something that can be checked and applied. The subject says
 * who acts on which task, and the server's permissions guard the subject, so the body is never asked.
 */

import { requestHash } from "../../shared/integrity/request-hash.ts";
import type {
  AcknowledgedAnswer,
  CommittedAnswer,
  HandoffAnswer,
  OwnershipAnswer,
  RecoveryAnswer,
} from "../../shared/protocol/answers.ts";
import {
  type Actor,
  acknowledgeCommandSchema,
  cancelHandoffCommandSchema,
  createCommandSchema,
  finalizeCommandSchema,
  handoffCommandSchema,
  linkCommandSchema,
  recoverCommandSchema,
  releaseCommandSchema,
  takeCommandSchema,
  updateCommandSchema,
} from "../../shared/protocol/commands.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { COMMAND_OPS, type CommandAddress, type CommandOp } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import { checkNewCheckpoint } from "../../shared/records/checkpoint/create.ts";
import { checkPatch } from "../../shared/records/checkpoint/update.ts";
import type { Caller, CheckpointRepository } from "../../shared/records/repository.ts";
import { requireRemembered } from "../../shared/records/task/expiry.ts";
import { currentTraceparent } from "../../shared/runtime/observability/tracing.ts";
import { requireAgentType } from "../../shared/service-host/policy-file.ts";

/** A command that has the right form. */
export interface Command {
  readonly op: CommandOp;
  readonly actor: Actor;
  readonly id: string;
  /** A command that must have been applied before. */
  readonly after: string | undefined;
  /** Of the caller, when it has one. */
  readonly fence: number | undefined;
  /** Tells a retry, which repeats its subject and its bytes, from another command under the same id. */
  readonly hash: string;
  /** Throws what can be refused without the store. */
  check(): void;
  apply(deadlineMs: number): Promise<Promised>;
}

export type Promised =
  | CommittedAnswer
  | OwnershipAnswer
  | AcknowledgedAnswer
  | HandoffAnswer
  | RecoveryAnswer;

export interface Commands {
  /** Throws INVALID, with every field that is wrong. */
  read(address: CommandAddress, body: unknown, bytes: Uint8Array): Command;
}

type Envelope = { command_id: string; fence?: number | undefined; after?: string | undefined };

/** One kind of command, read: its envelope, and what can be done with it. */
interface Read {
  readonly envelope: Envelope;
  readonly check: (context: { actor: Actor; nowMs: number }) => void;
  readonly apply: (by: Caller) => Promise<Promised>;
}

export function isCommandOp(op: string): op is CommandOp {
  return (COMMAND_OPS as readonly string[]).includes(op);
}

const nothing = (): void => {};

/** Complete by compilation: one reader for each kind of command. */
function readersOf(
  repository: CheckpointRepository,
  agentTypes: ReadonlySet<string>,
): Readonly<Record<CommandOp, (body: unknown) => Read>> {
  return {
    create(body) {
      const command = validate(createCommandSchema, body);
      requireAgentType("checkpoint.metadata.agent_type", command.checkpoint.metadata.agent_type, agentTypes);
      requireAgentType("handoff.to_agent_type", command.handoff?.to_agent_type, agentTypes);
      return {
        envelope: command,
        check: (context) => checkNewCheckpoint(context, command),
        apply: (by) => repository.create(by, command),
      };
    },
    update(body) {
      const command = validate(updateCommandSchema, body);
      return {
        envelope: command,
        check: () => void checkPatch(command),
        apply: (by) => repository.update(by, command),
      };
    },
    finalize(body) {
      const command = validate(finalizeCommandSchema, body);
      return { envelope: command, check: nothing, apply: (by) => repository.finalize(by, command) };
    },
    link(body) {
      const command = validate(linkCommandSchema, body);
      return { envelope: command, check: nothing, apply: (by) => repository.link(by, command) };
    },
    take(body) {
      const command = validate(takeCommandSchema, body);
      const { command_id, fence } = command;
      return { envelope: { command_id, fence }, check: nothing, apply: (by) => repository.take(by, command) };
    },
    release(body) {
      const command = validate(releaseCommandSchema, body);
      return { envelope: command, check: nothing, apply: (by) => repository.release(by) };
    },
    handoff(body) {
      const command = validate(handoffCommandSchema, body);
      requireAgentType("to_agent_type", command.to_agent_type, agentTypes);
      return { envelope: command, check: nothing, apply: (by) => repository.initiateHandoff(by, command) };
    },
    acknowledge(body) {
      const command = validate(acknowledgeCommandSchema, body);
      const { command_id, fence } = command;
      return {
        envelope: { command_id, fence },
        check: nothing,
        apply: (by) => repository.acknowledgeHandoff(by, command),
      };
    },
    recover(body) {
      const command = validate(recoverCommandSchema, body);
      requireAgentType("to_agent_type", command.to_agent_type, agentTypes);
      const { command_id, fence } = command;
      return {
        envelope: { command_id, fence },
        check: nothing,
        apply: (by) => repository.recover(by, command),
      };
    },
    cancel_handoff(body) {
      const command = validate(cancelHandoffCommandSchema, body);
      return { envelope: command, check: nothing, apply: (by) => repository.cancelHandoff(by, command) };
    },
  };
}

export function createCommands(
  repository: CheckpointRepository,
  agentTypes: ReadonlySet<string>,
  now: () => number,
): Commands {
  const readers = readersOf(repository, agentTypes);
  return {
    read({ op, ...actor }, body, bytes) {
      if (!isCommandOp(op)) throw invalid("op", `one of ${COMMAND_OPS.join(", ")}`, op);
      const { envelope, check, apply } = readers[op](body);
      const { command_id: id, fence, after } = envelope;
      const hash = requestHash({ ...actor, op }, bytes);
      return {
        op,
        actor,
        id,
        after,
        fence,
        hash,
        check: () => {
          const context = { actor, nowMs: now() };
          requireRemembered(id, undefined, context.nowMs);
          check(context);
        },
        apply: (deadlineMs) =>
          apply({
            actor,
            commandId: id,
            fence,
            requestHash: hash,
            traceparent: currentTraceparent(),
            deadlineMs,
          }),
      };
    },
  };
}
