/**
 * The rights of each role on the bus: the only source of the server's configuration, of issued credentials
 * and of the table in SPEC.md. Clients have no rights on JetStream, because JetStream publishes its answers to
 * any reply subject, also where the client itself may not publish.
 */
import { ARTIFACT_BUCKET } from "./object-bucket.ts";
import { ACTING, commandRoles, queryRoles, WATCHING } from "./operation-roles.ts";
import { COMMAND_OPS, type CommandOp, QUERY_OPS, QUEUED_OPS, type QueryOp } from "./operations.ts";
import { CLIENT_ROLES, type Role, SERVICE_ROLES, type ServiceRole } from "./roles.ts";
import { CLIENT_ANSWERS, STREAMS } from "./subjects.ts";

export interface Rights {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** One line of the table. `{tenant}` and `{name}` stand for those of the credentials. */
export interface PermissionRow {
  readonly subject: string;
  readonly direction: "publish" | "subscribe";
  readonly roles: readonly Role[];
  readonly purpose: string;
}

function commandRow(op: CommandOp): PermissionRow {
  return {
    subject: `fleet.cmd.{tenant}.{name}.*.${op}`,
    direction: "publish",
    roles: commandRoles(op),
    purpose: `command ${op}`,
  };
}

function queryRow(op: QueryOp): PermissionRow {
  return {
    subject: `fleet.query.{tenant}.{name}.${op}`,
    direction: "publish",
    roles: queryRoles(op),
    purpose: `query ${op}`,
  };
}

const runnerRow = (subject: string, purpose: string): PermissionRow => ({
  subject,
  direction: "publish",
  roles: ["runner"],
  purpose,
});

/** A runner acts for the agents that it starts. Their names are not known when it gets its credentials. */
const RUNNER_ROWS: readonly PermissionRow[] = [
  runnerRow("fleet.heartbeat.{tenant}.*", "heartbeats of its agents"),
  runnerRow("fleet.exit.{tenant}.*.*", "exit reports of its agents"),
  runnerRow("fleet.access.{tenant}.{name}.agent_credentials", "asks for credentials of its agents"),
];

const AGENT_REQUEST_ROWS: readonly PermissionRow[] = [
  {
    subject: "fleet.agent.{tenant}.*.*.*",
    direction: "subscribe",
    roles: ["runner"],
    purpose: "requests about its agents",
  },
  {
    subject: "fleet.agent.{tenant}.*.{name}.checkpoint",
    direction: "subscribe",
    roles: ACTING,
    purpose: "is asked for a checkpoint before a reassignment",
  },
  {
    // Not `allow_responses` of the server: it permits each subject that a request names for its answer, also that of a command.
    subject: `_INBOX.{tenant}.*.${CLIENT_ANSWERS}.>`,
    direction: "publish",
    roles: ["runner"],
    purpose: "answers about its agents",
  },
  {
    subject: "fleet.agent.{tenant}.{name}.*.*",
    direction: "publish",
    roles: ["orchestrator", "operator"],
    purpose: "asks the runner of an agent to restart it, or for its checkpoint",
  },
  {
    subject: "fleet.agent.{tenant}.{name}.{name}.inject",
    direction: "publish",
    roles: ["agent"],
    purpose: "asks its runner for the checkpoint message",
  },
];

const CLIENT_ROWS: readonly PermissionRow[] = [
  ...COMMAND_OPS.map(commandRow),
  ...QUEUED_OPS.map(
    (op): PermissionRow => ({
      subject: `fleet.queue.{tenant}.{name}.*.${op}`,
      direction: "publish",
      roles: commandRoles(op),
      purpose: `queued command ${op}`,
    }),
  ),
  ...QUERY_OPS.map(queryRow),
  {
    subject: "fleet.heartbeat.{tenant}.{name}",
    direction: "publish",
    roles: ACTING,
    purpose: "heartbeat",
  },
  {
    subject: "fleet.exit.{tenant}.{name}.*",
    direction: "publish",
    roles: ACTING,
    purpose: "its own exit report",
  },
  {
    subject: "fleet.cmd.{tenant}.{name}.*.acknowledge.*",
    direction: "publish",
    roles: ["runner", "orchestrator"],
    purpose: "accepts offers for the agents that it starts, under its own name",
  },
  ...RUNNER_ROWS,
  ...AGENT_REQUEST_ROWS,
  {
    subject: "_INBOX.{tenant}.{name}.>",
    direction: "subscribe",
    roles: CLIENT_ROLES,
    purpose: "answers",
  },
  {
    subject: "fleet.event.{tenant}.>",
    direction: "subscribe",
    roles: ["agent", ...WATCHING],
    purpose: "events of the tenant",
  },
  {
    subject: "fleet.alert.{tenant}.>",
    direction: "subscribe",
    roles: WATCHING,
    purpose: "alerts of the tenant",
  },
];

/** The services that own streams. */
const SERVICES = SERVICE_ROLES.filter((role) => role !== "signer");

function streamRows(
  name: string,
  { consumers, reads, removes }: Partial<Record<"consumers" | "reads" | "removes", readonly ServiceRole[]>>,
): PermissionRow[] {
  const row = (subject: string, roles: readonly ServiceRole[], purpose: string): PermissionRow[] =>
    roles.length === 0 ? [] : [{ subject, direction: "publish", roles, purpose }];
  const consumer = (op: string, purpose: string) =>
    row(`$JS.API.CONSUMER.${op}.${name}.>`, consumers ?? [], purpose);
  return [
    ...row(`$JS.API.STREAM.INFO.${name}`, SERVICES, "reads the state of the stream"),
    ...row(`$JS.API.STREAM.CREATE.${name}`, SERVICES, "creates the stream"),
    ...row(`$JS.API.STREAM.UPDATE.${name}`, SERVICES, "restores the settings of the stream"),
    ...row(`$JS.API.STREAM.MSG.GET.${name}`, reads ?? [], "reads a message; compares a reported copy"),
    ...row(`$JS.API.DIRECT.GET.${name}`, reads ?? [], "reads a message"),
    ...row(`$JS.API.DIRECT.GET.${name}.>`, reads ?? [], "reads the newest message of a subject"),
    ...row(`$JS.API.STREAM.MSG.DELETE.${name}`, removes ?? [], "removes a message"),
    ...consumer("CREATE", "creates a consumer"),
    ...row(`$JS.API.CONSUMER.CREATE.${name}`, consumers ?? [], "creates a consumer without a name"),
    ...consumer("DURABLE.CREATE", "creates a consumer, older servers"),
    ...row(`$JS.API.CONSUMER.INFO.${name}.>`, SERVICES, "reads the state of a consumer"),
    ...consumer("PAUSE", "resumes a paused consumer"),
    ...consumer("DELETE", "removes an out-of-date consumer"),
    ...consumer("MSG.NEXT", "asks for messages"),
    ...row(`$JS.API.CONSUMER.LIST.${name}`, SERVICES, "lists the consumers"),
    ...row(`$JS.API.CONSUMER.NAMES.${name}`, SERVICES, "lists the consumers"),
    ...row(`$JS.ACK.${name}.>`, consumers ?? [], "acknowledges messages"),
  ];
}

/** The bucket of artifacts: readers store and remove, watchdogs verify. */
function bucketRows({
  stream,
  everyContent,
  everyRecord,
}: Pick<typeof ARTIFACT_BUCKET, "stream" | "everyContent" | "everyRecord">): PermissionRow[] {
  const row = (subject: string, roles: readonly ServiceRole[], purpose: string): PermissionRow => ({
    subject,
    direction: "publish",
    roles,
    purpose,
  });
  const [stores, reads] = [every("reader"), every("reader", "watchdog")];
  return [
    row(`$JS.API.STREAM.INFO.${stream}`, SERVICES, "reads the state of the bucket"),
    row(`$JS.API.STREAM.CREATE.${stream}`, SERVICES, "creates the bucket"),
    row(`$JS.API.STREAM.UPDATE.${stream}`, SERVICES, "restores the settings of the bucket"),
    row(`$JS.API.CONSUMER.LIST.${stream}`, SERVICES, "lists the consumers"),
    row(`$JS.API.STREAM.MSG.GET.${stream}`, reads, "reads an artifact"),
    row(`$JS.API.DIRECT.GET.${stream}.>`, reads, "reads an artifact"),
    row(`$JS.API.STREAM.PURGE.${stream}`, stores, "removes an artifact"),
    row(everyContent, stores, "stores an artifact"),
    row(everyRecord, stores, "stores an artifact"),
  ];
}

/** What one service may do, the process of all services may do too. */
const every = (...roles: readonly ServiceRole[]): readonly ServiceRole[] => [...roles, "standalone"];

const service = (
  subject: string,
  direction: PermissionRow["direction"],
  roles: readonly ServiceRole[],
  purpose: string,
): PermissionRow => ({ subject, direction, roles: every(...roles), purpose });

const SERVICE_ROWS: readonly PermissionRow[] = [
  ...SERVICE_ROLES.map(
    (role): PermissionRow => ({
      subject: `_INBOX.=${role}.>`,
      direction: "subscribe",
      roles: [role],
      purpose: "answers to the service itself",
    }),
  ),
  service("fleet.cmd.*.*.*.*", "subscribe", ["writer"], "commands"),
  service("fleet.cmd.*.*.*.acknowledge.*", "subscribe", ["writer"], "offers accepted for agents"),
  service("fleet.query.*.*.*", "subscribe", ["reader"], "queries"),
  service("fleet.heartbeat.*.*", "subscribe", ["watchdog", "reader"], "heartbeats"),
  service(
    "fleet.query.*.*.diagnose",
    "subscribe",
    ["writer", "coordinator", "watchdog"],
    "questions of fleet doctor",
  ),
  service(
    "_INBOX.>",
    "publish",
    ["writer", "reader", "coordinator", "watchdog", "signer"],
    "answers to callers",
  ),
  service("fleet.access.*.*.agent_credentials", "subscribe", ["signer"], "requests of runners"),
  service("fleet.event.>", "publish", ["writer"], "events out of the outbox"),
  service("fleet.offer.*.*.*", "publish", ["writer"], "offers out of the outbox"),
  service("fleet.dead.>", "publish", ["writer", "coordinator", "watchdog"], "dead letters"),
  service("fleet.alert.>", "publish", ["writer", "coordinator", "watchdog", "reader"], "alerts"),
  // A writer puts a command there while the store is away; its own right is not that of the caller.
  service(
    "fleet.queue.>",
    "publish",
    ["writer", "reader"],
    "commands for later, and dead letters that are retried",
  ),
  {
    subject: "$JS.API.INFO",
    direction: "publish",
    roles: SERVICE_ROLES,
    purpose: "reads the limits of JetStream",
  },
  {
    subject: "$JS.API.STREAM.NAMES",
    direction: "publish",
    roles: SERVICES,
    purpose: "finds the stream of a subject",
  },
];

const STREAM_ROWS: readonly PermissionRow[] = [
  ...streamRows(STREAMS.events, {
    consumers: every("coordinator", "watchdog", "reader"),
    reads: every("writer", "reader", "coordinator", "watchdog"),
  }),
  ...streamRows(STREAMS.alerts, {
    consumers: every("writer", "reader", "watchdog"),
    reads: every("writer", "reader", "coordinator", "watchdog"),
    removes: every("writer"),
  }),
  ...streamRows(STREAMS.queue, {
    consumers: every("writer"),
    reads: every("writer", "reader", "watchdog"),
    removes: every("writer"),
  }),
  ...streamRows(STREAMS.dead, {
    consumers: every("reader"),
    reads: every("writer", "reader", "coordinator", "watchdog"),
    removes: every("reader"),
  }),
  ...streamRows(STREAMS.offers, {
    consumers: every("reader"),
    reads: every("writer", "reader"),
    removes: every("writer"),
  }),
  ...streamRows(STREAMS.exits, {
    consumers: every("watchdog"),
    reads: every("watchdog", "reader", "writer"),
    removes: every("writer"),
  }),
  ...bucketRows(ARTIFACT_BUCKET),
];

export const PERMISSIONS: readonly PermissionRow[] = [...CLIENT_ROWS, ...SERVICE_ROWS, ...STREAM_ROWS];

/** The rights of a role. `tenant` and `name` may be templates of the server. */
export function rightsOf(role: Role, { tenant, name }: { tenant: string; name: string }): Rights {
  const of = (direction: PermissionRow["direction"]): string[] =>
    PERMISSIONS.filter((row) => row.direction === direction && row.roles.includes(role)).map(({ subject }) =>
      subject.replace("{tenant}", tenant).replaceAll("{name}", name),
    );
  return { publish: of("publish"), subscribe: of("subscribe") };
}
