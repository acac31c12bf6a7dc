/**
 * API.md from top to bottom, with nothing but the page and a NATS client: every request is sent to a new fleet, and its answer is the
 * one that the page prints.
 */

import { readFileSync } from "node:fs";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMAND_OPS } from "../../../shared/protocol/operations.ts";
import { administratorAuthenticator } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";

type Json = Record<string, unknown>;

const page = readFileSync(new URL("../../../shared/protocol/API.md", import.meta.url), "utf8");
const blocks = [...page.matchAll(/^```(\w+) ?(\S*)\n([\s\S]*?)^```$/gm)].map(([, language, tag, text]) => ({
  language: language as string,
  tag: tag as string,
  text: text as string,
}));

/** The fields that differ between fleets, with the form of their values. */
const VOLATILE: [names: RegExp, shape: RegExp][] = [
  [
    /^(committed_at|requested_at|ended_at|timestamp|created_at|updated_at|retain_until|time|at|queued_at|dead_at|stored_at|kept_until|first_beat_at|last_beat_at|listening_since|not_before|signed_at)$/,
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  ],
  // The coordinator may be faster than the request that cancels the handoff.
  [/^(validated_at|offered_at)$/, /^(null|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/],
  [/^(attempt|max_attempts|fence_to_be|first_checkpoint_ms)$/, /^(null|\d+)$/],
  [/^policy$/, /^[0-9a-f]{16}$/],
  [
    /^(hash|salt|checkpoint_hash|audit_hash|new_hash|old_hash|prev|audithash|key_id|signed_by)$/,
    /^[0-9a-f]{64}$/,
  ],
  [/^offer_digest$/, /^(null|[0-9a-f]{64})$/],
  [/^(position|indexed_through)$/, /^[0-9a-f]{20}$/],
  [/^cursor$/, /^[A-Za-z0-9_-]{16,}$/],
  [/^(id|alert_id)$/, /^default\/billing-42\/FLEET_QUEUE-\d-\d{13}$/],
  [/^server_version$/, /^\d+\.\d+\.\d+$/],
  [/^(uptime_ms|oldest_ms|bytes_max|free_bytes|total_bytes|min_free_bytes)$/, /^\d+$/],
  [/^detail$/, /^/],
];

function masked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      if (name === "entry") return [name, masked(JSON.parse(inner as string))];
      const shape = VOLATILE.find(([names]) => names.test(name))?.[1];
      return [name, shape?.test(String(inner)) ? `any ${shape.source}` : masked(inner)];
    }),
  );
}

const POLL = { timeout: 30_000, interval: 20 };

let fleet: TestFleet;
let nats: NatsConnection;
const events: Json[] = [];
/** Maps the positions and alert ids that the page prints to those of this fleet. */
const printedValues = new Map<string, string>();

beforeAll(async () => {
  // Cold, because the page prints the counts of a fleet with no other task.
  fleet = await startFleet({}, { cold: true });
  nats = await connect({
    servers: fleet.url,
    inboxPrefix: "_INBOX.default.agent-7",
    authenticator: await administratorAuthenticator(fleet.home),
  });
});

afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
});

async function ask(subject: string, text: string): Promise<Json> {
  const body = text.replaceAll(
    /(?<="wait_for": ")\w+|(?<=")default\/billing-42\/[\w-]+/g,
    (printed) => printedValues.get(printed) ?? printed,
  );
  return (await nats.request(subject, body, { timeout: 20_000 })).json<Json>();
}

function subjectOf(op: string): string {
  if (op.startsWith("query.")) return `fleet.query.default.agent-7.${op.slice("query.".length)}`;
  return (COMMAND_OPS as readonly string[]).includes(op)
    ? `fleet.cmd.default.agent-7.billing-42.${op}`
    : `fleet.query.default.agent-7.${op}`;
}

/** The operations whose answers depend on the index, which follows the commits. */
const NEED_INDEX: ReadonlySet<string> = new Set(["status", "index_status", "search", "by_agent"]);

/** Resolves when all events are published and indexed. The page does not wait for it, because its reader is slower. */
async function settled(): Promise<void> {
  await expect
    .poll(async () => (await ask("fleet.query.default.agent-7.status", "{}")).result, POLL)
    .toMatchObject({ outbox: { depth: 0 }, index: { behind: 0, state: "ready" } });
}

function shellWith(words: string): string {
  return blocks.find(({ language, text }) => language === "sh" && text.includes(words))!.text;
}

/** Runs the shell command of the section about agents; resolves when the reader has received the heartbeat. */
async function sendHeartbeat(): Promise<void> {
  const [, subject, body] = /^nats publish (\S+)[\s\\]+'([^']+)'/.exec(shellWith("fleet.heartbeat."))!;
  nats.publish(subject!, body);
  const agents = async () => (await ask("fleet.query.default.agent-7.agents", "{}")).result;
  await expect.poll(agents, POLL).toMatchObject({ agents: [{}] });
}

/** Runs the shell command of the section about the queue; resolves when its command has become the dead letter of the page. */
async function publishToQueue(): Promise<void> {
  const shell = shellWith("fleet.queue.");
  const [, subject, body] = /^nats request (\S+)[\s\\]+'([^']+)'/.exec(shell)!;
  expect(await ask(subject!, body!)).toMatchObject({ stream: "FLEET_QUEUE", seq: 1 });
  await untilDead(1);
  // The letter is stored before the message leaves the queue.
  const depth = async () => (await ask("fleet.query.default.agent-7.queue_status", "{}")).result;
  await expect.poll(depth, POLL).toMatchObject({ depth: 0, left_total: 1 });
}

async function untilDead(seq: number): Promise<void> {
  const list = async () => (await ask("fleet.query.default.agent-7.dead_list", "{}")).result;
  await expect.poll(list, POLL).toMatchObject({ letters: [{ seq }] });
}

const alertIds = (answer: Json): string[] =>
  (answer.result as { alerts: { alert: { id: string } }[] }).alerts.map(({ alert }) => alert.id);

/** Resolves when both dead letters are alerted. */
async function untilAlerted(): Promise<void> {
  const ids = async () => alertIds(await ask("fleet.query.default.agent-7.alerts", "{}"));
  await expect.poll(ids, POLL).toHaveLength(2);
}

/** Resolves when the upload is verified, which may take longer than one answer. */
async function untilStored(text: string): Promise<void> {
  const commit = async () => (await ask(subjectOf("artifact_commit"), text)).result;
  await expect.poll(commit, POLL).toMatchObject({ state: "stored" });
}

test("the first shell commands work", async () => {
  const shell = blocks.find(({ language }) => language === "sh")!.text;
  const [, subscription] = /^nats subscribe '([^']+)'/m.exec(shell)!;
  nats.subscribe(subscription!, { callback: (_error, message) => void events.push(message.json<Json>()) });
  const requests = [
    ...shell.matchAll(/^nats --inbox-prefix _INBOX.default.agent-7 request (\S+)[\s\\]+'([^']+)'/gm),
  ];
  expect(requests).toHaveLength(2);
  const answers: Json[] = [];
  for (const [, subject, body] of requests) answers.push(await ask(subject!, body!));
  expect(answers[0]).toMatchObject({ status: "committed", seq: 1, version: 1 });
  expect(answers[1]).toMatchObject({
    status: "ok",
    result: { checkpoint: { metadata: { checkpoint_id: answers[0]!.checkpoint_id, agent_id: "agent-7" } } },
  });
});

/**
 * `acknowledge` and the queries for offers need an offer, so the tests of offers cover them. The answers about a scrub depend on its progress, so the test that waits
 * for a scrub covers them: test/fleet/cli/scrub.test.ts. A fork begins another task, and the page prints the counts of one task:
 * test/fleet/cli/fork.test.ts covers it. A removal needs old checkpoints: test/fleet/cli/prune.test.ts. A mission is another task, too:
 * the tests of the program and of test/shared/records/mission.
 * The commands of an import need a task of their own: test/fleet/transfer/import.test.ts. The answer to `diagnose` depends on the machine:
 * test/fleet/doctor. Roots and proofs depend on the keys: test/fleet/signing/audit-log.test.ts. The ids of keys are random: test/fleet/signing/keys.test.ts, test/fleet/transfer/bundle/bundle.test.ts.
 * A signature needs a person and a provider: test/fleet/esign/esign.test.ts. The ids of sessions are random: test/fleet/access-log.
 */
const TESTED_ELSEWHERE: ReadonlySet<string> = new Set([
  "diagnose",
  "acknowledge",
  "fork",
  "offer_next",
  "offer_settle",
  "scrub_status",
  "scrub_start",
  "scrub_findings",
  "signing_keys",
  "key_rotate",
  "key_revoke",
  "encryption_rotate",
  "audit_log",
  "audit_proof",
  "audit_anchors",
  "export_record",
  "tenant_audit_proof",
  "access_log",
  "access_blocks",
  "denial_record",
  "signature_add",
  "signing_request",
  "signatures",
  "signers",
  "signer_revoke",
  "passkey_revoke",
  "remove",
  "prunable",
  "shred_request",
  "shred_approve",
  "shred_cancel",
  "shreds",
  "shred_certificate",
  "mission_start",
  "mission_update",
  "mission_checkpoint",
  "mission_resume",
  "sortie_add",
  "sortie_update",
  "missions",
  "mission",
  "sorties",
  "recovery_context",
  "resume_preview",
  "lock_acquire",
  "lock_renew",
  "lock_release",
  "locks",
  "message_send",
  "message_ack",
  "message_cancel",
  "mailbox_subscribe",
  "mailbox",
  "messages",
  "import_begin",
  "import_version",
  "import_removed",
  "import_records",
  "import_end",
  "mission_records",
]);

/** Each request with the first answer that the page prints after it. */
const exchanges = blocks.flatMap(({ tag, text }, i) => {
  const op = /^((?:query\.)?\w+)-request$/.exec(tag)?.[1];
  if (op === undefined || TESTED_ELSEWHERE.has(op)) return [];
  const answer = blocks.slice(i).find((later) => /-answer$/.test(later.tag)) ?? { text: "null" };
  // The first answer precedes the first request: it shows the answer of every command.
  const first = blocks.find((one) => one.tag === "committed-answer")!;
  return [{ op, text, answer: JSON.parse(op === "create" ? first.text : answer.text) as Json }];
});

describe("the page's requests, in its order", () => {
  test.each(exchanges)("$op", async ({ op, text, answer }) => {
    if (NEED_INDEX.has(op)) await settled();
    if (op === "agents") await sendHeartbeat();
    if (op === "queue_status") await publishToQueue();
    if (op === "dead_drop") await untilDead(2);
    if (op === "alerts") await untilAlerted();
    if (op === "artifact_commit") await untilStored(text);
    const got = await ask(subjectOf(op), text);
    expect(masked(got)).toEqual(masked(answer));
    if (op === "alerts") {
      for (const [i, id] of alertIds(got).entries()) printedValues.set(alertIds(answer)[i]!, id);
    }
    if (answer.status === "committed") printedValues.set(answer.position as string, got.position as string);
  });
});

describe("the page's errors", () => {
  const create = JSON.parse(exchanges.find(({ op }) => op === "create")!.text) as Json & { checkpoint: Json };
  const [conflict, invalid] = blocks
    .filter(({ tag }) => tag === "error-answer")
    .map(({ text }) => JSON.parse(text));
  const commandId = "019bef78-0000-7a31-b5c4-0d6e2f9a1b06";

  test("a create with a wrong expected version", async () => {
    const body = { ...create, command_id: commandId };
    expect(await ask(subjectOf("create"), JSON.stringify(body))).toEqual(conflict);
  });

  test("a create with two wrong fields", async () => {
    const { metadata, execution_state: state } = create.checkpoint as Record<string, Json>;
    const wrong = {
      metadata: { ...metadata, agent_type: "a b" },
      execution_state: { ...state, pending_items: ["Write the migration", 3] },
    };
    const body = { ...create, command_id: commandId, checkpoint: { ...create.checkpoint, ...wrong } };
    expect(await ask(subjectOf("create"), JSON.stringify(body))).toEqual(invalid);
  });

  test("an existing parent is refused as CONFLICT, as the page states under link", async () => {
    const draft = { ...create, command_id: commandId, expected_version: 2 };
    expect(await ask(subjectOf("create"), JSON.stringify(draft))).toMatchObject({ status: "committed" });
    const link = {
      command_id: "019bef78-0001-7a31-b5c4-0d6e2f9a1b07",
      parent_id: create.command_id,
      child_id: commandId,
    };
    expect(await ask(subjectOf("link"), JSON.stringify(link))).toMatchObject({
      status: "committed",
      version: 2,
    });
    const again = { ...link, command_id: "019bef78-0002-7a31-b5c4-0d6e2f9a1b08" };
    expect(await ask(subjectOf("link"), JSON.stringify(again))).toMatchObject({
      error: { code: "CONFLICT" },
    });
  });
});

test("the events that the page prints for these commands were published, in its order", async () => {
  await settled();
  const printed = blocks
    .filter(({ tag }) => /^event-(CHECKPOINT_(CREATED|UPDATED|FINALIZED)|TASK_(TAKEN|RELEASED))$/.test(tag))
    .map(({ text }) => JSON.parse(text) as Json);
  expect(printed).toHaveLength(5);
  const sequences = printed.map(({ sequence }) => sequence);
  // On a busy machine an event is published again. Its stream drops the repetition, and a subscriber without a stream gets both.
  const once = new Map(events.map((event) => [event.id, event]));
  const came = [...once.values()].filter(({ sequence }) => sequences.includes(sequence));
  expect(came.map(masked)).toEqual(printed.map(masked));
});
