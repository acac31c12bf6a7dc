/**
 * The bus as an AsyncAPI 3.0 document: channels, their services, messages and their schemas. Operations are
 * those of Fleet: it receives commands and queries, and it sends events. The settings of NATS and JetStream
 * have `x-` names.
 */
import { ALERT_TYPES, type AlertType } from "../alerts.ts";
import { SCHEMA_VERSION } from "../checkpoint.ts";
import { EVENT_TYPES } from "../events.ts";
import { LIMITS } from "../limits.ts";
import {
  COMMAND_OPS,
  type CommandOp,
  isAnsweredOp,
  isQueuedOp,
  QUERY_OPS,
  QUEUED_OPS,
  type QueuedOp,
} from "../operations.ts";
import { CONTENT_TYPES, QUEUES, STREAMS, SUBJECTS } from "../subjects.ts";
import { channelAddress } from "./channel-address.ts";
import { HEADER_SCHEMAS } from "./header-schemas.ts";
import { SCHEMA_FILES } from "./schemas.ts";
import { STREAM_FACTS } from "./stream-facts.ts";

type Tree = Record<string, unknown>;

const ref = (path: string): Tree => ({ $ref: `#/${path}` });
const refs = (names: readonly string[], path: string): Tree[] => names.map((name) => ref(`${path}/${name}`));

function channel(subject: string, message: string, more: Tree = {}): Tree {
  return {
    ...channelAddress(subject),
    messages: { [message]: ref(`components/messages/${message}`) },
    ...more,
  };
}

function replyChannel(messages: readonly string[]): Tree {
  return {
    address: null,
    description:
      "The inbox that the request names as its reply subject. It must be below _INBOX.<tenant>.<agent_id>, _INBOX.<tenant>.<caller_id> or _INBOX.<tenant>.<runner_id> of the request.",
    messages: Object.fromEntries(messages.map((name) => [name, ref(`components/messages/${name}`)])),
  };
}

function requestOperation(name: string, queue: string, answers: readonly string[]): Tree {
  return {
    action: "receive",
    channel: ref(`channels/${name}`),
    messages: refs([name], `channels/${name}/messages`),
    reply: {
      address: { location: "$message.header#/reply" },
      channel: ref(`channels/${name}.reply`),
      messages: refs(answers, `channels/${name}.reply/messages`),
    },
    bindings: { nats: { queue } },
    "x-nats": { kind: "core request", queue_group: queue },
  };
}

function message(name: string, file: string, contentType: string, headers: string): Tree {
  return {
    name,
    contentType,
    headers: ref(`components/schemas/${headers}`),
    payload: { $ref: `./schemas/${file}` },
  };
}

/** An answer that is a message of its own, and not one of the answers to requests. */
const OFFER_ANSWER = "offer";

function answerMessage(promise: string): [name: string, message: Tree] {
  const name = `answer.${promise}`;
  return [name, message(name, SCHEMA_FILES.answer(promise), CONTENT_TYPES.json, "answer_headers")];
}

/**
 * The parts of the document for one request: its channel, the reply's channel, the operation and the
 * messages.
 */
function request(
  kind: "command" | "query",
  op: string,
  ...promises: readonly string[]
): { channels: Tree; operations: Tree; messages: Tree } {
  const name = `${kind}.${op}`;
  const named = promises.filter((promise) => promise !== OFFER_ANSWER);
  const own = promises.filter((promise) => promise === OFFER_ANSWER);
  const answers = [...own, ...named.map((promise) => `answer.${promise}`), "answer.error"];
  const queue = kind === "command" ? QUEUES.writer : QUEUES.reader;
  const subject =
    kind === "command"
      ? SUBJECTS.command("tenant", "agent_id", "task_id", op as (typeof COMMAND_OPS)[number])
      : SUBJECTS.query("tenant", "caller_id", op as (typeof QUERY_OPS)[number]);
  return {
    channels: { [name]: channel(subject, name), [`${name}.reply`]: replyChannel(answers) },
    operations: { [name]: requestOperation(name, queue, answers) },
    messages: {
      [name]: message(name, SCHEMA_FILES[kind](op), CONTENT_TYPES.json, "request_headers"),
      ...Object.fromEntries(named.map(answerMessage)),
    },
  };
}

/** A runner or an orchestrator accepts an offer for an agent that it starts. Request and answers are those of `acknowledge`. */
function acceptance(): { channels: Tree; operations: Tree; messages: Tree } {
  const [name, request] = ["command.acknowledge.agent", "command.acknowledge"];
  const answers = [...promises("acknowledge").map((promise) => `answer.${promise}`), "answer.error"];
  const subject = SUBJECTS.acceptance("tenant", "runner_id", "task_id", "new_agent_id");
  const operation = requestOperation(name, QUEUES.writer, answers);
  return {
    channels: { [name]: channel(subject, request), [`${name}.reply`]: replyChannel(answers) },
    operations: { [name]: { ...operation, messages: refs([request], `channels/${name}/messages`) } },
    messages: {},
  };
}

/** A runner without the fleet's keys asks for the credentials of an agent. */
function agentCredentials(): { channels: Tree; operations: Tree; messages: Tree } {
  const name = "access.agent_credentials";
  const [answer, content] = answerMessage("agent_credentials");
  const answers = [answer, "answer.error"];
  return {
    channels: {
      [name]: channel(SUBJECTS.agentCredentials("tenant", "runner_id"), name),
      [`${name}.reply`]: replyChannel(answers),
    },
    operations: { [name]: requestOperation(name, QUEUES.signer, answers) },
    messages: {
      [name]: message(name, "agent-credentials.json", CONTENT_TYPES.json, "request_headers"),
      [answer]: content,
    },
  };
}

/**
 * A command through the queue. Once the stream has acknowledged it, it is applied once or becomes a dead
 * letter.
 */
function queueRequest(op: QueuedOp): { channels: Tree; operations: Tree; messages: Tree } {
  const name = `queue.${op}`;
  const subject = SUBJECTS.queue("tenant", "agent_id", "task_id", op);
  return {
    channels: { [name]: channel(subject, `command.${op}`, { "x-jetstream": { stream: STREAMS.queue } }) },
    operations: {
      [name]: {
        action: "receive",
        channel: ref(`channels/${name}`),
        messages: refs([`command.${op}`], `channels/${name}/messages`),
        "x-nats": {
          kind: "JetStream",
          delivery: "applied once, in order per task, or dead-lettered",
          message_id: "optional: made from the command's id and its content",
        },
      },
    },
    messages: {},
  };
}

/** A message without a reply, from or to agents and operators. */
function notice(
  { name, subject, action, file, contentType, headers }: Notice,
  nats: Tree,
): { channels: Tree; operations: Tree; messages: Tree } {
  const stream = nats.stream === undefined ? {} : { "x-jetstream": { stream: nats.stream } };
  const operation = {
    action,
    channel: ref(`channels/${name}`),
    messages: refs([name], `channels/${name}/messages`),
    "x-nats": nats,
  };
  return {
    channels: { [name]: channel(subject, name, stream) },
    operations: { [name]: operation },
    messages: { [name]: message(name, file, contentType, headers) },
  };
}

interface Notice {
  readonly name: string;
  readonly subject: string;
  readonly action: "send" | "receive";
  readonly file: string;
  readonly contentType: string;
  readonly headers: string;
}

const OFFER: Notice = {
  name: "offer",
  subject: SUBJECTS.offer("tenant", "agent_type", "task_id", "mark"),
  action: "send",
  file: "offer.json",
  contentType: CONTENT_TYPES.event,
  headers: "event_headers",
};

const alert = (type: AlertType): Notice => ({
  name: `alert.${type}`,
  subject: SUBJECTS.alert("tenant", "severity", "task_id"),
  action: "send",
  file: SCHEMA_FILES.alert(type),
  contentType: CONTENT_TYPES.event,
  headers: "event_headers",
});

const HEARTBEAT: Notice = {
  name: "heartbeat",
  subject: SUBJECTS.heartbeat("tenant", "agent_id"),
  action: "receive",
  file: "heartbeat.json",
  contentType: CONTENT_TYPES.json,
  headers: "request_headers",
};

const EXIT: Notice = {
  name: "exit",
  subject: SUBJECTS.exit("tenant", "agent_id", "task_id"),
  action: "receive",
  file: "exit-report.json",
  contentType: CONTENT_TYPES.json,
  headers: "request_headers",
};

/** A queued command that was refused, for operators: the unchanged body, with headers that say why. */
function deadLetter(): { channels: Tree; operations: Tree; messages: Tree } {
  const name = "dead";
  return {
    channels: {
      [name]: channel(SUBJECTS.dead("tenant", "stream", "reason", "task_id"), name, {
        "x-jetstream": { stream: STREAMS.dead },
      }),
    },
    operations: {
      [name]: {
        action: "send",
        channel: ref(`channels/${name}`),
        messages: refs([name], `channels/${name}/messages`),
        "x-nats": {
          kind: "JetStream",
          delivery: "at least once; kept until an operator retries or drops it",
        },
      },
    },
    messages: {
      [name]: {
        name,
        headers: ref("components/schemas/dead_headers"),
        payload: { description: "The body of the refused command, which need not be a valid one" },
      },
    },
  };
}

function event(type: string): { channels: Tree; operations: Tree; messages: Tree } {
  const name = `event.${type}`;
  const subject = SUBJECTS.event("tenant", type, "task_id");
  const stream = { "x-jetstream": { stream: STREAMS.events } };
  return {
    channels: { [name]: channel(subject, name, stream) },
    operations: {
      [name]: {
        action: "send",
        channel: ref(`channels/${name}`),
        messages: refs([name], `channels/${name}/messages`),
        "x-nats": {
          kind: "JetStream",
          delivery: "at least once, in order per task",
          message_id: "made with a key that only services have",
        },
      },
    },
    messages: {
      [name]: message(name, SCHEMA_FILES.event(type), CONTENT_TYPES.event, "event_headers"),
    },
  };
}

/** The answers to applied commands, where they are not versions of a checkpoint. */
const APPLIED: Readonly<Partial<Record<CommandOp, string>>> = {
  take: "ownership",
  release: "ownership",
  acknowledge: "acknowledged",
  handoff: "handoff_state",
  cancel_handoff: "handoff_state",
  recover: "recovery",
  remove: "removed",
  retain: "retention",
  hold: "retention",
  shred_request: "shred",
  shred_approve: "shred",
  shred_cancel: "shred",
  signature_add: "signature",
  mission_start: "mission_state",
  mission_update: "mission_state",
  mission_checkpoint: "mission_snapshot",
  mission_resume: "resumption",
  sortie_add: "mission_state",
  sortie_update: "mission_state",
  lock_acquire: "lock",
  lock_renew: "lock",
  lock_release: "lock",
  message_send: "message",
  message_ack: "message",
  message_cancel: "message",
  mailbox_subscribe: "mailbox_state",
  import_begin: "ownership",
  import_records: "ownership",
  import_end: "ownership",
};

/** The answers to a command that was not refused. */
function promises(op: CommandOp): string[] {
  const applied = APPLIED[op] ?? "committed";
  return isQueuedOp(op) ? [applied, "queued"] : [applied];
}

export function asyncApi(): Tree {
  const parts = [
    ...COMMAND_OPS.map((op) => request("command", op, ...promises(op))),
    acceptance(),
    ...QUEUED_OPS.map(queueRequest),
    ...QUERY_OPS.map((op) => request("query", op, isAnsweredOp(op) ? op : OFFER_ANSWER)),
    ...EVENT_TYPES.map(event),
    ...ALERT_TYPES.map((type) =>
      notice(alert(type), {
        kind: "JetStream",
        stream: STREAMS.alerts,
        delivery: "at least once",
        message_id: "made with a key that only services have",
      }),
    ),
    notice(OFFER, {
      kind: "JetStream work queue",
      stream: STREAMS.offers,
      delivery:
        "at least once, to one client for the agent type at a time, as the answer to query.offer_next",
      message_id: "made with a key that only services have",
    }),
    notice(HEARTBEAT, { kind: "core", every_ms: LIMITS.heartbeat_ms }),
    agentCredentials(),
    deadLetter(),
    notice(EXIT, { kind: "JetStream", stream: STREAMS.exits, delivery: "at least once" }),
  ];
  const merged = (key: "channels" | "operations" | "messages"): Tree =>
    Object.assign({}, ...parts.map((part) => part[key]));
  return {
    asyncapi: "3.0.0",
    info: {
      title: "Fleet",
      version: `${SCHEMA_VERSION}.0`,
      description:
        "Checkpoint, handoff and recovery for AI agents. Semantics: API.md and SPEC.md beside this file.",
    },
    defaultContentType: CONTENT_TYPES.json,
    servers: {
      standalone: {
        host: "127.0.0.1:4222",
        protocol: "nats",
        description: "The server of a standalone fleet",
        security: [
          {
            type: "asymmetricEncryption",
            description:
              "A NATS credentials file from `fleet access issue`: its JWT, and the Ed25519 signature of the server's nonce by its seed. API.md has the details.",
          },
        ],
        "x-nats": { jetstream: true, max_payload: LIMITS.message_bytes_max },
      },
    },
    channels: merged("channels"),
    operations: merged("operations"),
    components: {
      messages: {
        ...merged("messages"),
        "answer.error": message(
          "answer.error",
          SCHEMA_FILES.answer("error"),
          CONTENT_TYPES.json,
          "answer_headers",
        ),
      },
      schemas: HEADER_SCHEMAS,
    },
    "x-jetstream-streams": STREAM_FACTS,
  };
}
