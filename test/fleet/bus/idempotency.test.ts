// The same command many times: from several clients and processes together, through kills of the fleet and its bus and through
// restarts. It has one effect and one answer, and its id is refused for any other command.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import type { NatsConnection } from "@nats-io/transport-node";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMAND_OPS, type CommandOp } from "../../../shared/protocol/operations.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { CheckpointInput, FleetClient } from "../../../shared/sdk/sdk.ts";
import {
  type CopyBatch,
  connectNats,
  type RawAnswer,
  type RawCommand,
  sendCopies,
  sendUntilSettled,
} from "../../harness/processes/copies.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";

const AGENT = "repeater";
const PROCESSES = 2;
const CLIENTS = 3;

interface PreparedCommand extends RawCommand {
  readonly op: CommandOp;
  readonly task: string;
  readonly commandId: string;
  /** The number of audit entries of its task before the command. */
  readonly before: number;
}

interface Copier {
  readonly child: ChildProcess;
  readonly lines: Interface;
}

let fleet: TestFleet;
let client: FleetClient;
let copiers: Copier[];
let connections: NatsConnection[];
let tasks = 0;

beforeAll(async () => {
  fleet = await startFleet({ FLEET_LOG_LEVEL: "warn" });
  client = await fleet.client("preparer");
  connections = await Promise.all(Array.from({ length: CLIENTS }, () => connectNats(fleet.url, fleet.home)));
  copiers = Array.from({ length: PROCESSES }, () => {
    const child = spawn(process.execPath, ["test/fleet/bus/copier.program.ts", fleet.url, fleet.home], {
      cwd: projectRoot,
      stdio: ["pipe", "pipe", "inherit"],
    });
    return { child, lines: createInterface({ input: child.stdout }) };
  });
});

afterAll(async () => {
  for (const { child } of copiers ?? []) child.kill("SIGKILL");
  await Promise.all((connections ?? []).map((nats) => nats.close()));
  await fleet?.stop();
});

function input(goal = "g"): CheckpointInput {
  return { metadata: { agent_type: "qa", parent_ids: [] }, execution_state: { phase: "testing", goal } };
}

/** The source of all forks. */
const SOURCE = "source";

const bodyFor = (op: CommandOp, parent: string, child: string, text: string): object =>
  ({
    create: { checkpoint: input(text) },
    update: { checkpoint_id: child, patch: { execution_state: { goal: text } } },
    finalize: { checkpoint_id: child, status: "handed_off", labels: text },
    link: { parent_id: parent, child_id: child, note: text },
    take: { note: text },
    release: { fence: 1, note: text },
    handoff: { reason: text },
    acknowledge: { handoff_id: parent, checkpoint_id: child, agent_type: text },
    cancel_handoff: { reason: text },
    recover: { reason: text },
    remove: { checkpoint_id: parent, keep: 1, note: text },
    retain: { retention_policy: "P30D", note: text },
    hold: { hold: "case-1", note: text },
    ...{ shred_request: {}, shred_approve: {}, shred_cancel: {} },
    fork: { source_task_id: SOURCE, note: text },
    mission_start: { title: text },
    mission_update: { title: text },
    mission_checkpoint: { note: text },
    mission_resume: { note: text },
    sortie_add: { sorties: [{ title: text }] },
    sortie_update: { sortie_id: "srt-001", progress_notes: text },
    lock_acquire: { path: "src/new.ts", purpose: text },
    lock_renew: { path: "src/held.ts", note: text },
    lock_release: { path: "src/held.ts", note: text },
    message_send: { to: [AGENT], subject: text },
    message_ack: { message_id: "msg-0001", note: text },
    message_cancel: { message_id: "msg-0001", note: text },
    mailbox_subscribe: { events: ["mission_changed"], note: text },
    // Only those in OPS are sent.
    ...{
      signature_add: {},
      import_begin: {},
      import_version: {},
      import_removed: {},
      import_records: {},
      import_end: {},
    },
  })[op];

/** The audit entries of the prepared tasks, where they are not those of two checkpoints. */
const ENTRIES_BEFORE: Partial<Record<CommandOp, number>> = {
  release: 3,
  cancel_handoff: 3,
  remove: 3,
  fork: 0,
  mission_update: 7,
  mission_checkpoint: 7,
  mission_resume: 7,
  sortie_add: 7,
  sortie_update: 7,
  lock_acquire: 8,
  lock_renew: 8,
  lock_release: 8,
  message_send: 7,
  message_ack: 8,
  message_cancel: 8,
  mailbox_subscribe: 7,
};

/** The number of audit entries of commands that make several transitions. */
const ENTRIES_MADE: Partial<Record<CommandOp, number>> = { mission_checkpoint: 3 };

/**
 * All commands but `acknowledge`, which needs an offer: test/shared/records/handoff/handoff-refusals.test.ts covers it. Those of an import
 * need a task of their own: test/shared/records/transfer/import.test.ts. Those of shredding need two persons:
 * test/shared/records/retention/shred.test.ts. A signature needs the token of a person: test/fleet/esign/esign.test.ts.
 */
const OPS = COMMAND_OPS.filter(
  (op) => op !== "acknowledge" && op !== "signature_add" && !/^(import|shred)_/.test(op),
);

/** A command of that kind, with a new task in the state that the command needs. */
async function prepare(op: CommandOp): Promise<PreparedCommand & { readonly other: RawCommand }> {
  tasks += 1;
  const task = `${op}-${tasks}`;
  const options = { deadlineMs: 60_000 };
  // A fork creates its task.
  const written = op === "fork" ? SOURCE : task;
  const parent = await client.createCheckpoint({ taskId: written, checkpoint: input(), ...options });
  const child = await client.createCheckpoint({ taskId: written, checkpoint: input(), ...options });
  // A recovery would need the last two.
  if (op === "remove") await client.createCheckpoint({ taskId: task, checkpoint: input(), ...options });
  if (op === "release") await client.takeTask(task, options);
  if (op === "cancel_handoff") await openHandoff(task);
  if ((ENTRIES_BEFORE[op] ?? 0) >= 7) await startMission(task);
  if (op.startsWith("lock_")) await apply(task, "lock_acquire", { path: "src/held.ts" });
  if (op === "message_ack" || op === "message_cancel")
    await apply(task, "message_send", { to: [AGENT], subject: "to itself" });
  const commandId = uuidv7();
  const command = (text: string): RawCommand => ({
    subject: SUBJECTS.command("default", AGENT, task, op),
    body: JSON.stringify({
      command_id: commandId,
      ...bodyFor(op, parent.checkpointId ?? "", child.checkpointId ?? "", text),
    }),
  });
  return {
    ...command("one"),
    op,
    task,
    commandId,
    before: ENTRIES_BEFORE[op] ?? 2,
    other: command("other"),
  };
}

/** A mission with a sortie and a checkpoint. */
async function startMission(task: string): Promise<void> {
  const mission = client.mission(task);
  const options = { deadlineMs: 60_000 };
  await mission.start({ title: "a mission" }, options);
  await mission.addSorties([{ title: "a part" }], options);
  await mission.checkpoint(options);
}

async function apply(task: string, op: CommandOp, members: object): Promise<void> {
  const [nats] = connections as [NatsConnection];
  const subject = SUBJECTS.command("default", AGENT, task, op);
  const body = JSON.stringify({ command_id: uuidv7(), ...members });
  expect(await sendUntilSettled(nats, { subject, body })).toMatchObject({ status: "committed" });
}

async function openHandoff(task: string): Promise<void> {
  const [nats] = connections as [NatsConnection];
  const subject = SUBJECTS.command("default", AGENT, task, "handoff");
  const answer = await sendUntilSettled(nats, { subject, body: JSON.stringify({ command_id: uuidv7() }) });
  expect(answer).toMatchObject({ status: "committed", state: "requested" });
}

/** The ids of the commands that were applied to a task. */
async function applied(task: string): Promise<string[]> {
  const { entries } = await client.getAudit(task);
  const ids = entries.map(({ entry }) => (JSON.parse(entry) as { command_id: string | null }).command_id);
  return ids.filter((id) => id !== null);
}

const prepareAll = () => Promise.all(OPS.map(prepare));

/** Sends the batch from all processes and clients together; resolves with all answers of each command. */
async function sendEverywhere(batch: CopyBatch, onAnswer = () => {}): Promise<RawAnswer[][]> {
  const answers: RawAnswer[][] = batch.commands.map(() => []);
  const add = (index: number, answer: RawAnswer): void => {
    answers[index]?.push(answer);
    onAnswer();
  };
  const fromProcesses = copiers.map(async ({ child, lines }) => {
    const done = Promise.withResolvers<void>();
    const onLine = (text: string): void => {
      const line = JSON.parse(text) as { done?: boolean; index: number; answer: RawAnswer };
      if (line.done) done.resolve();
      else add(line.index, line.answer);
    };
    lines.on("line", onLine);
    child.stdin?.write(`${JSON.stringify(batch)}\n`);
    await Promise.race([
      done.promise,
      once(child, "exit").then(() => done.reject(new Error("a copier ended"))),
    ]);
    await done.promise;
    lines.off("line", onLine);
  });
  const fromClients = connections.map((nats) => sendCopies(nats, batch, add));
  await Promise.all([...fromProcesses, ...fromClients]);
  return answers;
}

/** Asserts that all answers repeat the first one, and that the audit trail has the command once; resolves with the first answers. */
async function requireOneEffect(
  commands: readonly PreparedCommand[],
  answers: readonly RawAnswer[][],
): Promise<RawAnswer[]> {
  const firsts = commands.map(({ op, commandId }, index) => {
    const all = answers[index] ?? [];
    const [first] = all;
    expect([op, first]).toMatchObject([op, { status: "committed", command_id: commandId }]);
    for (const answer of all) expect({ ...answer, replayed: true }).toEqual({ ...first, replayed: true });
    expect(all.filter(({ replayed }) => replayed === false).length).toBeLessThanOrEqual(1);
    return { ...first, replayed: true } as RawAnswer;
  });
  for (const { op, task, commandId, before } of commands) {
    const ids = await applied(task);
    const made = ENTRIES_MADE[op as CommandOp] ?? 1;
    expect(ids.filter((id) => id === commandId)).toEqual(Array(made).fill(commandId));
    expect(ids).toHaveLength(before + made);
    expect((await client.verifyAudit(task)).ok).toBe(true);
  }
  return firsts;
}

test("many concurrent copies from several clients and processes have one effect and one answer", async () => {
  const commands = await prepareAll();
  const answers = await sendEverywhere({ commands, senders: 5, times: 8 });
  for (const all of answers) {
    expect(all).toHaveLength((PROCESSES + CLIENTS) * 5 * 8);
    // On a loaded machine the first answer may come after its attempt has ended.
    expect(all.filter(({ replayed }) => replayed === false).length).toBeLessThanOrEqual(1);
  }
  await requireOneEffect(commands, answers);
}, 60_000);

describe("through kills and restarts", () => {
  const faults: [what: string, fault: () => Promise<void>][] = [
    ["SIGKILL of the fleet", async () => fleet.kill9().then(fleet.start)],
    ["SIGKILL of nats-server, which the fleet restarts", async () => fleet.killNats()],
    [
      "SIGKILL of both",
      async () => {
        await Promise.all([fleet.kill9(), fleet.killNats()]);
        await fleet.start();
      },
    ],
    ["a regular stop", async () => fleet.terminate().then(fleet.start)],
  ];
  const settled: { commands: readonly PreparedCommand[]; firsts: readonly RawAnswer[] }[] = [];

  test.each(faults)(
    "%s, while copies are in flight",
    async (_, fault) => {
      const commands = await prepareAll();
      const begun = Promise.withResolvers<void>();
      let received = 0;
      const sending = sendEverywhere({ commands, senders: 3, times: 12 }, () => {
        received += 1;
        if (received === 100) begun.resolve();
      });
      await Promise.race([begun.promise, sending]);
      await fault();
      const answers = await sending;
      for (const all of answers) expect(all).toHaveLength((PROCESSES + CLIENTS) * 3 * 12);
      settled.push({ commands, firsts: await requireOneEffect(commands, answers) });
    },
    120_000,
  );

  test("after all of them every command is answered as before", async () => {
    expect(settled).toHaveLength(faults.length);
    for (const { commands, firsts } of settled) {
      const again = await sendEverywhere({ commands, senders: 1, times: 1 });
      for (const [index, all] of again.entries())
        expect(all).toEqual(Array(PROCESSES + CLIENTS).fill(firsts[index]));
      await requireOneEffect(commands, again);
    }
  }, 60_000);
});

test.each(OPS)(
  "%s: a used id is refused with any other content, and nothing is applied",
  async (op) => {
    const command = await prepare(op);
    const { other, task, commandId } = command;
    const [nats] = connections as [NatsConnection];
    const first = await sendUntilSettled(nats, command);
    expect(first).toMatchObject({ status: "committed", replayed: false });
    const ids = await applied(task);
    const sibling = await prepare(op);
    const kinds = OPS.filter((kind) => kind !== op);
    const misuses: RawCommand[] = [
      other,
      { ...command, body: `${command.body} ` },
      { ...command, subject: SUBJECTS.command("default", "another-agent", task, op) },
      { ...command, subject: SUBJECTS.command("default", AGENT, sibling.task, op) },
      ...kinds.map((kind) => ({
        subject: SUBJECTS.command("default", AGENT, task, kind),
        body: JSON.stringify({ command_id: commandId, ...bodyFor(kind, uuidv7(), uuidv7(), "x") }),
      })),
    ];
    for (const misuse of misuses) {
      expect(await sendUntilSettled(nats, misuse)).toMatchObject({
        status: "error",
        error: { code: "CONFLICT", fields: [{ path: "command_id" }] },
      });
    }
    expect(await applied(task)).toEqual(ids);
    if (sibling.before === 0) expect(await client.getTask(sibling.task)).toBeNull();
    else expect(await applied(sibling.task)).toHaveLength(sibling.before);
    expect(await sendUntilSettled(nats, command)).toEqual({ ...first, replayed: true });
  },
  60_000,
);
