/**
 * All subjects on the bus: `fleet` first, identifiers last. Names are spelled only here (test/tidy.test.ts),
 * and identifiers are checked before they become tokens, so that no input can address another subject.
 */
import { FleetError, invalid } from "./errors.ts";
import { isToken } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import type { AgentRequestOp, CommandOp, QueryOp, QueuedOp } from "./operations.ts";
import { isPrincipal, PRINCIPAL_FORM, parsePrincipal } from "./principal.ts";

/** The inboxes of a caller for the answers of other clients. No client may write where services answer. */
export const CLIENT_ANSWERS = "clients";
const INBOX_REST = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

function token(name: string, value: string): string {
  if (!isToken(value)) throw invalid(name, "1 to 64 characters of A-Z a-z 0-9 _ -", value);
  return value;
}

/** The token of the agent or person that acts. */
function principal(name: string, value: string): string {
  if (!isPrincipal(value)) throw invalid(name, PRINCIPAL_FORM, value);
  return value;
}

function anyOf(name: string, value: string | undefined): string {
  return value === undefined ? "*" : token(name, value);
}

/** No id contains `=`. */
function markedTask(task: string, mark: string | undefined): string {
  return mark === undefined ? token("task_id", task) : `${token("task_id", task)}=${token("mark", mark)}`;
}

export const SUBJECTS = {
  command: (tenant: string, agent: string, task: string, op: CommandOp): string =>
    `fleet.cmd.${token("tenant", tenant)}.${principal("agent_id", agent)}.${token("task_id", task)}.${op}`,
  everyCommand: "fleet.cmd.*.*.*.*",
  /** A runner or an orchestrator accepts an offer for an agent that it starts. The server's permissions guard the name of the former. */
  acceptance: (tenant: string, caller: string, task: string, agent: string): string =>
    `${SUBJECTS.command(tenant, caller, task, "acknowledge")}.${principal("agent_id", agent)}`,
  everyAcceptance: "fleet.cmd.*.*.*.acknowledge.*",
  /** Fire and forget: a command that the stream has acknowledged is applied once, or becomes a dead letter. */
  queue: (tenant: string, agent: string, task: string, op: QueuedOp): string =>
    `fleet.queue.${token("tenant", tenant)}.${principal("agent_id", agent)}.${token("task_id", task)}.${op}`,
  everyQueue: "fleet.queue.*.*.*.*",
  /**
   * The subject under which the stream stores a command. The partition depends on the task alone, so all
   * commands of a task share one and keep their order. `1` to `4` are the tokens of {@link SUBJECTS.queue}.
   */
  queuedForm:
    `fleet.q.{{partition(${LIMITS.queue_partition_count},3)}}` +
    ".{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}.{{wildcard(4)}}",
  queuedPartition: (partition: number): string => `fleet.q.${partition}.>`,
  /** The queued commands of one agent for one task. */
  queuedOf: (tenant: string, agent: string, task: string): string =>
    `fleet.q.*.${token("tenant", tenant)}.${principal("agent_id", agent)}.${token("task_id", task)}.*`,
  dead: (tenant: string, stream: string, reason: string, task: string): string =>
    `fleet.dead.${token("tenant", tenant)}.${token("stream", stream)}.${token("reason", reason)}.${token("task_id", task)}`,
  deadOf: (tenant: string): string => `fleet.dead.${token("tenant", tenant)}.*.*.*`,
  /** Letters of an earlier version, whose subjects name no tenant. */
  everyEarlierDead: "fleet.dead.*.*.*",
  everyDead: "fleet.dead.>",
  /** The caller is an agent or a person, such as an orchestrator or an operator. */
  query: (tenant: string, caller: string, op: QueryOp): string =>
    `fleet.query.${token("tenant", tenant)}.${principal("caller_id", caller)}.${op}`,
  everyQuery: "fleet.query.*.*.*",
  everyDiagnosis: "fleet.query.*.*.diagnose",
  /** A runner asks a signing service for the credentials of an agent. */
  agentCredentials: (tenant: string, runner: string): string =>
    `fleet.access.${token("tenant", tenant)}.${principal("runner", runner)}.agent_credentials`,
  everyAgentCredentials: "fleet.access.*.*.agent_credentials",
  event: (tenant: string, type: string, task: string): string =>
    `fleet.event.${token("tenant", tenant)}.${token("type", type)}.${token("task_id", task)}`,
  everyEvent: "fleet.event.>",
  /** The events of a tenant, of a type and a task. Absent: of all. */
  eventsIn: (of: { tenant: string; type?: string | undefined; task?: string | undefined }): string =>
    `fleet.event.${token("tenant", of.tenant)}.${anyOf("type", of.type)}.${anyOf("task_id", of.task)}`,
  /** Events of one type, of all tenants and tasks. */
  eventsOf: (type: string): string => `fleet.event.*.${token("type", type)}.*`,
  tenantEvents: (tenant: string): string => `fleet.event.${token("tenant", tenant)}.>`,
  taskEvents: (tenant: string, task: string): string =>
    `fleet.event.${token("tenant", tenant)}.*.${token("task_id", task)}`,
  alert: (tenant: string, severity: string, task: string): string =>
    `fleet.alert.${token("tenant", tenant)}.${token("severity", severity)}.${token("task_id", task)}`,
  everyAlert: "fleet.alert.>",
  /** The alerts of a tenant, a severity or a task. Absent: of all. */
  alertsOf: (of: {
    tenant?: string | undefined;
    severity?: string | undefined;
    task?: string | undefined;
  }): string =>
    `fleet.alert.${anyOf("tenant", of.tenant)}.${anyOf("severity", of.severity)}.${anyOf("task_id", of.task)}`,
  /** A work queue per agent type: each offer reaches one client at a time. `mark`: no client can foresee it. Versions up to `fd4acd51` set none. */
  offer: (tenant: string, agentType: string, task: string, mark?: string): string =>
    `fleet.offer.${token("tenant", tenant)}.${token("agent_type", agentType)}.${markedTask(task, mark)}`,
  offersOf: (tenant: string, agentType: string): string =>
    `fleet.offer.${token("tenant", tenant)}.${token("agent_type", agentType)}.*`,
  everyOffer: "fleet.offer.*.*.*",
  taskOffers: (tenant: string, task: string, mark?: string): string =>
    `fleet.offer.${token("tenant", tenant)}.*.${markedTask(task, mark)}`,
  heartbeat: (tenant: string, agent: string): string =>
    `fleet.heartbeat.${token("tenant", tenant)}.${token("agent_id", agent)}`,
  everyHeartbeat: "fleet.heartbeat.*.*",
  /** A request to the runner that started the agent, or to the agent itself. */
  agentRequest: (tenant: string, caller: string, agent: string, op: AgentRequestOp): string =>
    `fleet.agent.${token("tenant", tenant)}.${principal("caller_id", caller)}.${token("agent_id", agent)}.${op}`,
  /** The requests of all callers. */
  agentRequests: (tenant: string, agent: string, op: AgentRequestOp): string =>
    `fleet.agent.${token("tenant", tenant)}.*.${principal("agent_id", agent)}.${op}`,
  exit: (tenant: string, agent: string, task: string): string =>
    `fleet.exit.${token("tenant", tenant)}.${token("agent_id", agent)}.${token("task_id", task)}`,
  everyExit: "fleet.exit.*.*.*",
  taskExits: (tenant: string, task: string): string =>
    `fleet.exit.${token("tenant", tenant)}.*.${token("task_id", task)}`,
  /** The server asks a signing service here about a connection without credentials of its own. */
  authRequest: "$SYS.REQ.USER.AUTH",
  /** The inboxes of one caller. Callers of the same name in two tenants have different ones. */
  inboxPrefix: (tenant: string, caller: string): string =>
    `_INBOX.${token("tenant", tenant)}.${principal("caller_id", caller)}`,
  clientInboxPrefix: (tenant: string, caller: string): string =>
    `${SUBJECTS.inboxPrefix(tenant, caller)}.${CLIENT_ANSWERS}`,
  /** The inboxes of one instance of a service. No tenant begins with `=`. */
  serviceInboxPrefix: (service: string, instance: string): string =>
    `_INBOX.=${token("service", service)}.${token("instance", instance)}`,
} as const;

export const STREAMS = {
  events: "FLEET_EVENTS",
  alerts: "FLEET_ALERTS",
  queue: "FLEET_QUEUE",
  dead: "FLEET_DEAD",
  offers: "FLEET_OFFERS",
  exits: "FLEET_EXITS",
} as const;

/** Queue groups: any number of instances serve one subject, and each message reaches one of them. */
export const QUEUES = { writer: "writer", reader: "reader", signer: "signer" } as const;

/**
 * The durable consumer that all clients for one agent type share. No token contains `=`, so no two pairs have
 * the same name.
 */
export function offerConsumer(tenant: string, agentType: string): string {
  return `offers=${token("tenant", tenant)}=${token("agent_type", agentType)}`;
}

const DELIVERY =
  /^\$JS\.ACK\.FLEET_OFFERS\.offers=([A-Za-z0-9_-]{1,64})=([A-Za-z0-9_-]{1,64})\.(\d{1,20})\.(\d{1,20})\.\d{1,20}\.\d{1,20}\.\d{1,20}$/;

/** The delivery of an offer, as its token names it. */
export interface DeliveryAddress {
  readonly tenant: string;
  readonly agentType: string;
  /** The number of deliveries of this offer, including this one. */
  readonly deliveries: number;
  /** The position of the offer in the stream. */
  readonly seq: number;
}

/**
 * Parses the token of a delivery, which is the acknowledgement subject of the bus. undefined: it is not the
 * delivery of an offer.
 */
export function parseDelivery(delivery: string): DeliveryAddress | undefined {
  const [, tenant, agentType, deliveries, seq] = DELIVERY.exec(delivery) ?? [];
  if (tenant === undefined || agentType === undefined) return undefined;
  return { tenant, agentType, deliveries: Number(deliveries), seq: Number(seq) };
}

/** The durable consumer of a webhook, which all watchdogs share. */
export function webhookConsumer(name: string): string {
  return `webhook=${token("name", name)}`;
}

/** Message headers of Fleet's own; trace headers are W3C `traceparent` and `tracestate`. */
export const HEADERS = {
  contentType: "content-type",
  messageId: "Nats-Msg-Id",
  /** The reply subject of a queued command. Only an inbox of the caller in its subject is accepted. */
  replyTo: "Fleet-Reply-To",
  /** The headers of a dead letter: the subject, id and content hash of its command, the error and the times. */
  deadSubject: "Fleet-Dead-Subject",
  deadCommand: "Fleet-Dead-Command",
  deadContent: "Fleet-Dead-Content",
  deadError: "Fleet-Dead-Error",
  deadAt: "Fleet-Dead-At",
  queuedAt: "Fleet-Queued-At",
  size: "Fleet-Size",
  /** The HTTP request that the gateway carries out, and the address of its client, for the access log. Any client can state them. */
  request: "Fleet-Request",
  client: "Fleet-Client",
  /** `1`: the command was sent before, and its outcome is not known. Its refusal is then final only if no copy of it is in the queue. */
  repeated: "Fleet-Repeated",
  /** The version of the message; see `protocol-version.ts`. Absent: 1. */
  protocol: "Fleet-Protocol",
} as const;

export const CONTENT_TYPES = {
  json: "application/json",
  msgpack: "application/msgpack",
  event: "application/cloudevents+json",
} as const;

export interface CommandAddress {
  readonly tenant: string;
  readonly agent: string;
  readonly task: string;
  readonly op: string;
}

/**
 * Parses `fleet.cmd.<tenant>.<agent>.<task>.<op>`, and `….acknowledge.<agent>`, in which the last token names the one that acts. Throws
 * INVALID with the token that is wrong, and FORBIDDEN if that one is a person: a program may not act as one.
 */
export function parseCommandSubject(subject: string): CommandAddress {
  const [, , tenant = "", caller = "", task = "", op = "", started] = subject.split(".");
  const agent = principal("agent_id", caller);
  return {
    tenant: token("tenant", tenant),
    agent: started === undefined ? agent : startedAgent(started),
    task: token("task_id", task),
    op,
  };
}

function startedAgent(name: string): string {
  if (parsePrincipal(principal("agent_id", name))?.kind === "agent") return name;
  throw new FleetError("FORBIDDEN", "a person accepts an offer with credentials of their own", {
    fields: [{ path: "agent_id", expected: "the id of an agent", got: name }],
  });
}

/** The unchecked tokens of a queued command's subject. */
export function queuedTokens(subject: string): CommandAddress {
  const [, , , tenant = "", agent = "", task = "", op = ""] = subject.split(".");
  return { tenant, agent, task, op };
}

/** Parses `fleet.q.<partition>.<tenant>.<agent>.<task>.<op>`; throws INVALID with the token that is wrong. */
export function parseQueuedSubject(subject: string): CommandAddress {
  const { tenant, agent, task, op } = queuedTokens(subject);
  return {
    tenant: token("tenant", tenant),
    agent: principal("agent_id", agent),
    task: token("task_id", task),
    op,
  };
}

/** The caller of a request: its name is unique within its tenant only. */
export interface CallerAddress {
  readonly tenant: string;
  readonly caller: string;
}

/** The operation in the subject of a request, such as `cmd.finalize`. undefined: another subject. */
export function operationIn(subject: string): string | undefined {
  const [fleet, kind, , , ...rest] = subject.split(".");
  const op = kind === "cmd" ? rest[1] : rest[0];
  return fleet === "fleet" && (kind === "cmd" || kind === "query") && op !== undefined
    ? `${kind}.${op}`
    : undefined;
}

/** True if the subject is below the caller's own inbox, the only place for its answers. */
export function isInboxOf({ tenant, caller }: CallerAddress, subject: string): boolean {
  const prefix = `_INBOX.${tenant}.${caller}.`;
  return subject.length <= 256 && subject.startsWith(prefix) && INBOX_REST.test(subject.slice(prefix.length));
}

export interface QueryAddress extends CallerAddress {
  readonly op: string;
}

/** Parses `fleet.query.<tenant>.<caller>.<op>`; throws INVALID with the token that is wrong. */
export function parseQuerySubject(subject: string): QueryAddress {
  const [, , tenant = "", caller = "", op = ""] = subject.split(".");
  return { tenant: token("tenant", tenant), caller: principal("caller_id", caller), op };
}

/** Whether clients receive such requests, and not the services. Those see the reply subject. */
export function isForClients(subject: string): boolean {
  return subject.startsWith("fleet.agent.");
}

const REQUEST_SUBJECT = /^fleet\.(?:cmd|query|access|agent)\.([^.]+)\.([^.]+)\./;

/** The caller that the subject of a request names. undefined: another subject. */
export function callerOf(subject: string): CallerAddress | undefined {
  const [, tenant = "", caller = ""] = REQUEST_SUBJECT.exec(subject) ?? [];
  return isToken(tenant) && isPrincipal(caller) ? { tenant, caller } : undefined;
}

/** True if the reply address is an inbox of the caller that the subject of the request names. */
export function answersCaller(subject: string, replyTo: string): boolean {
  const from = callerOf(subject);
  return from !== undefined && isInboxOf(from, replyTo);
}

/** Parses `fleet.heartbeat.<tenant>.<agent>`; throws INVALID with the token that is wrong. */
export function parseHeartbeatSubject(subject: string): { readonly tenant: string; readonly agent: string } {
  const [, , tenant = "", agent = ""] = subject.split(".");
  return { tenant: token("tenant", tenant), agent: token("agent_id", agent) };
}

/** Parses `fleet.exit.<tenant>.<agent>.<task>`; throws INVALID with the token that is wrong. */
export function parseExitSubject(subject: string): Omit<CommandAddress, "op"> {
  const [, , tenant = "", agent = "", task = ""] = subject.split(".");
  return { tenant: token("tenant", tenant), agent: token("agent_id", agent), task: token("task_id", task) };
}
