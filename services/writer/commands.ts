/**
 * The writer's commands: from a request on the bus to one transaction and its answer. The subject says who acts on which task, and
 * the server's permissions guard the subject, so the body is never asked.
 */

import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Answer, Request } from "../../shared/bus/endpoint.ts";
import type { CommittedAnswer, OwnershipAnswer } from "../../shared/protocol/answers.ts";
import {
  type CreateCommand,
  createCommandSchema,
  finalizeCommandSchema,
  linkCommandSchema,
  releaseCommandSchema,
  takeCommandSchema,
  updateCommandSchema,
} from "../../shared/protocol/commands.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { COMMAND_OPS, type CommandOp, parseCommandSubject } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import type { Caller, CheckpointRepository } from "../../shared/records/repository.ts";
import { currentTraceparent } from "../../shared/runtime/tracing.ts";

export interface Commands {
  handle(request: Request): Promise<Answer>;
}

type Identified = { command_id: string; fence?: number | undefined };

export function isCommandOp(op: string): op is CommandOp {
  return (COMMAND_OPS as readonly string[]).includes(op);
}

export function createCommands(repository: CheckpointRepository, agentTypes: ReadonlySet<string>): Commands {
  const apply = (
    op: CommandOp,
    body: unknown,
    by: (command: Identified) => Caller,
  ): Promise<CommittedAnswer | OwnershipAnswer> => {
    switch (op) {
      case "create": {
        const command = validate(createCommandSchema, body);
        requireAgentType(command, agentTypes);
        return repository.create(by(command), command);
      }
      case "update": {
        const command = validate(updateCommandSchema, body);
        return repository.update(by(command), command);
      }
      case "finalize": {
        const command = validate(finalizeCommandSchema, body);
        return repository.finalize(by(command), command);
      }
      case "link": {
        const command = validate(linkCommandSchema, body);
        return repository.link(by(command), command);
      }
      case "take": {
        const command = validate(takeCommandSchema, body);
        return repository.take(by(command), command);
      }
      case "release": {
        const command = validate(releaseCommandSchema, body);
        return repository.release(by(command));
      }
    }
  };

  return {
    async handle({ subject, body, bytes }) {
      const { op, ...actor } = parseCommandSubject(subject);
      if (!isCommandOp(op)) throw invalid("op", `one of ${COMMAND_OPS.join(", ")}`, op);
      const answer = await apply(op, body, (command) => ({
        actor,
        commandId: command.command_id,
        fence: command.fence,
        requestHash: requestHash(subject, bytes),
        traceparent: currentTraceparent(),
      }));
      const { task_id, checkpoint_id, version, replayed } = answer;
      const facts = {
        tenant: actor.tenant,
        agent_id: actor.agent,
        task_id,
        checkpoint_id,
        version,
        replayed,
      };
      return { value: answer, facts };
    },
  };
}

/** Tells a retry, which repeats its subject and its bytes, from another command under the same id. */
function requestHash(subject: string, bytes: Uint8Array): string {
  return `${hash("sha256", bytes, "hex")}${crc32(subject).toString(16).padStart(8, "0")}`;
}

function requireAgentType(command: CreateCommand, agentTypes: ReadonlySet<string>): void {
  const given = command.checkpoint.metadata.agent_type;
  if (agentTypes.has(given)) return;
  throw new FleetError("INVALID", "the agent type is not registered", {
    fields: [
      {
        path: "checkpoint.metadata.agent_type",
        expected: `one of ${[...agentTypes].join(", ")}`,
        got: given,
      },
    ],
    details: { remedy: "register further types in FLEET_AGENT_TYPES" },
  });
}
