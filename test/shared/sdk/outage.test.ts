// The outcome of a client's commands while parts of the fleet are unavailable: real servers that are killed and started, no writer
// unless a test serves one itself, and a check of the queue's stream at the end.

import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import {
  type CheckpointInput,
  type ConnectOptions,
  connect,
  type FleetClient,
} from "../../../shared/sdk/sdk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { committedAnswer, type SentCommand, serveCommands } from "./delivery/served-commands.ts";
import { queueMessagesOf } from "./queue-messages.ts";

const checkpoint: CheckpointInput = {
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing" },
};

/** A deadline that shows whether a call waited for it. */
const LONG_MS = 20_000;

let nats: TestNats;
let bus: Bus;
const root = mkdtempSync(join(tmpdir(), "fleet-outage-"));
const clients: FleetClient[] = [];
let tests = 0;
let task: string;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
});
beforeEach(() => {
  tests += 1;
  task = `t${tests}`;
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await bus?.close();
  await nats?.stop();
  rmSync(root, { recursive: true, force: true });
});

async function client(options: ConnectOptions = {}): Promise<FleetClient> {
  const one = await connect({
    ...{ url: nats.url, agentId: "agent", spoolDir: join(root, String(tests)), env: {} },
    ...options,
  });
  clients.push(one);
  return one;
}

/** The messages in the queue for this test's task, in order. */
const queued = () => queueMessagesOf(nats.url, task);

/** Serves commands in place of a writer until it is stopped or the test ends: a failed test must not leave its writer to the next one. */
async function writer(answer: (command: SentCommand, text: string) => object): Promise<Stop> {
  const serving = await serveCommands(bus, (command, { text }) => answer(command, text));
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= serving());
  onTestFinished(stop);
  return stop;
}

const committed = (command_id: string) => committedAnswer(command_id, task);

const create = (one: FleetClient, options: { deadlineMs?: number; commandId?: string } = {}) =>
  one.task(task).checkpoint(checkpoint, options);

const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
  const begin = performance.now();
  return [await work, performance.now() - begin];
};

describe("no writer", () => {
  test("a command is queued with its id and its bytes, and the next ones behind it", async () => {
    const one = await client();
    const first = await create(one);
    expect(first).toMatchObject({ outcome: "queued", taskId: task, checkpointId: first.commandId });
    const [second, ms] = await timed(create(one, { deadlineMs: LONG_MS }));
    expect(second.outcome).toBe("queued");
    // The first command had no answer, so the second does not wait for one again.
    expect(ms).toBeLessThan(LONG_MS / 2);
    const messages = await queued();
    const named = ({ commandId }: { commandId: string }) =>
      expect.stringMatching(new RegExp(`^${commandId}\\.[0-9a-f]{24}$`));
    expect(messages.map(({ body, messageId }) => [body.command_id, body.after, messageId])).toEqual([
      [first.commandId, undefined, named(first)],
      [second.commandId, first.commandId, named(second)],
    ]);
    expect(messages[0]!.subject).toMatch(
      new RegExp(`^fleet\\.q\\.\\d+\\.default\\.agent\\.${task}\\.create$`),
    );
  });

  test("a hook with a deadline of 100 ms has its answer in about that time", async () => {
    const [outcome, ms] = await timed(create(await client(), { deadlineMs: 100 }));
    expect(outcome.outcome).toBe("queued");
    expect(ms).toBeLessThan(LIMITS.request_deadline_ms_default / 2);
  });

  test("a writer that starts within a moment answers the command", async () => {
    const one = await client();
    const answer = create(one);
    const stop = await writer(({ command_id }) => committed(command_id));
    expect((await answer).outcome).toBe("committed");
    await stop();
    expect(await queued()).toEqual([]);
  });

  test("the client refuses a command that could never be applied", async () => {
    const one = await client();
    const wrong = { ...checkpoint, execution_state: { phase: "resting" } } as never;
    await expect(one.task(task).checkpoint(wrong)).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "checkpoint.execution_state.phase" }],
    });
    await expect(one.takeTask(task, { deadlineMs: 300 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(await queued()).toEqual([]);
  });

  test("with fallback none, a command fails with UNAVAILABLE at the deadline", async () => {
    const one = await client({ fallback: "none" });
    await expect(create(one, { deadlineMs: 300 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(await queued()).toEqual([]);
  });
});

describe("a writer's answers", () => {
  test("after the answer queued, later commands are ordered behind it until one of them is committed", async () => {
    const seen: (string | undefined)[] = [];
    let status = "queued";
    const stop = await writer(({ command_id, after }) => {
      seen.push(after);
      return status === "queued" ? { status, command_id, task_id: task, position: 7 } : committed(command_id);
    });
    const one = await client();
    const first = await create(one);
    expect(first).toMatchObject({ outcome: "queued", position: 7, checkpointId: first.commandId });
    const second = await create(one);
    // The order includes the commands of another process of the agent.
    const other = await client();
    status = "committed";
    expect((await create(other)).outcome).toBe("committed");
    await create(one);
    await create(one);
    // A repeated command has the same bytes.
    await create(one, { commandId: second.commandId });
    await stop();
    const [a, b] = [first.commandId, second.commandId];
    expect(seen).toEqual([undefined, a, b, b, undefined, a]);
  });

  test("a take is not ordered behind a queued command, but the commands after it are", async () => {
    const seen: (string | undefined)[] = [];
    let status = "queued";
    const stop = await writer(({ command_id, after }) => {
      seen.push(after);
      if (status === "queued") return { status, command_id, task_id: task, position: 7 };
      return { ...committed(command_id), owner: "a", fence: 1 };
    });
    const one = await client();
    const { commandId } = await create(one);
    status = "committed";
    await one.takeTask(task);
    await create(one);
    await create(one);
    await stop();
    expect(seen).toEqual([undefined, undefined, commandId, undefined]);
  });

  test("an error is final, including UNAVAILABLE", async () => {
    let code = "CONFLICT";
    const stop = await writer(() => ({
      status: "error",
      error: { code, message: "no", retryable: code !== "CONFLICT", retry_after_ms: 60_000 },
    }));
    const one = await client();
    await expect(create(one)).rejects.toMatchObject({ code: "CONFLICT" });
    code = "UNAVAILABLE";
    // The pause is longer than the deadline, so there is one attempt: the command is queued if a last attempt gets no answer.
    await expect(create(one, { deadlineMs: 20_000 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await stop();
    expect(await queued()).toEqual([]);
    expect((await one.pending()).commands).toBe(0);
  });

  test("without an answer, the command is queued with the same bytes", async () => {
    const asked: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = await bus.subscribe(SUBJECTS.everyCommand, ({ body }) => {
      asked.push(Buffer.from(body).toString());
    });
    const one = await client();
    const outcome = await create(one, { deadlineMs: 400 });
    expect(outcome.outcome).toBe("queued");
    resolve();
    await promise;
    await stop();
    expect((await queued()).map(({ text }) => text)).toEqual([asked[0]]);
  });

  test("while the queue is long, a command is repeated slowly and queued near the end of its time", async () => {
    let asked = 0;
    const stop = await writer(({ after }) => {
      asked += 1;
      const refused = { code: "UNAVAILABLE", message: "the queue is long", retryable: true, fields: [] };
      return {
        status: "error",
        error: { ...refused, details: { after: after ?? "another" }, retry_after_ms: 400 },
      };
    });
    const one = await client();
    const [{ outcome }, ms] = await timed(create(one, { deadlineMs: 2_600 }));
    await stop();
    expect(outcome).toBe("queued");
    // Half of the time is reserved for the queue. In the other half the pauses are 200 to 600 ms long.
    expect(ms).toBeGreaterThanOrEqual(1_250);
    expect(asked).toBeLessThanOrEqual(7);
  });

  test("a query at its deadline throws the last error that a service answered", async () => {
    let count = 0;
    const stop = await bus.subscribe(SUBJECTS.everyQuery, ({ replyTo }) => {
      count += 1;
      const error = { code: "UNAVAILABLE", message: "the index is behind", retryable: true };
      if (count === 1)
        bus.publish(replyTo!, { body: Buffer.from(JSON.stringify({ status: "error", error })) });
    });
    const one = await client();
    await expect(one.searchCheckpoints({ deadlineMs: 400 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "the index is behind",
    });
    await stop();
    expect(count).toBeGreaterThan(1);
  });
});

describe("no bus", () => {
  const nowhere = { url: "nats://127.0.0.1:1" };

  test("commands are spooled at once, and queries fail with UNAVAILABLE at once", async () => {
    const one = await client(nowhere);
    const [outcome, ms] = await timed(create(one, { deadlineMs: LONG_MS }));
    expect(outcome).toEqual({
      outcome: "spooled",
      spool: join(root, String(tests), "default.agent"),
      commandId: outcome.commandId,
      taskId: task,
      checkpointId: outcome.commandId,
    });
    expect(ms).toBeLessThan(LONG_MS / 2);
    await expect(one.admin.status()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("start a fleet (npm start), or set FLEET_URL") as string,
      details: { bus: "unavailable", url: "nats://127.0.0.1:1" },
    });
    expect(await one.pending()).toMatchObject({ commands: 1, tasks: [task], aside: 0 });
    expect(await one.flush({ deadlineMs: 50 })).toMatchObject({ commands: 1 });
  });

  test("without a spool, connect fails", async () => {
    await expect(client({ ...nowhere, fallback: "queue" })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("the next process of the agent sends the spool of the last one before its own commands", async () => {
    const one = await client(nowhere);
    const spooled = [await create(one), await create(one)];
    await one.close();
    const next = await client();
    const own = await create(next);
    expect(own.outcome).toBe("queued");
    const ids = [...spooled, own].map(({ commandId }) => commandId);
    const messages = await queued();
    expect(messages.map(({ body }) => body.command_id)).toEqual(ids);
    expect(messages[2]!.body.after).toBe(ids[1]);
    expect(await next.pending()).toMatchObject({ commands: 0, bytes: 0 });
  });

  test("a spool that is full or not writable is an error, and nothing is spooled", async () => {
    const small = await client({ ...nowhere, spoolBytesMax: 500 });
    await create(small);
    await expect(create(small)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "the spool is full and no bus takes commands",
    });
    expect((await small.pending()).commands).toBe(1);
    writeFileSync(join(root, "file"), "");
    const none = await client({ ...nowhere, spoolDir: join(root, "file") });
    await expect(create(none)).rejects.toMatchObject({ code: "UNAVAILABLE", details: { reason: "ENOTDIR" } });
  });

  test("agents without an id of their own share the spool of their machine", async () => {
    const { agentId: _, ...unnamed } = { agentId: "", ...nowhere, spoolDir: join(root, "unnamed"), env: {} };
    const one = await connect(unnamed);
    await create(one);
    const agentId = one.agentId;
    await one.close();
    expect(
      statSync(join(root, "unnamed", `default.${agentId.slice(0, agentId.lastIndexOf("-"))}`)).isDirectory(),
    ).toBe(true);
    const next = await connect({ ...unnamed, url: nats.url });
    expect(await next.flush()).toMatchObject({ commands: 0 });
    await next.close();
    expect((await queued())[0]!.subject).toContain(`.${agentId}.`);
  });
});

describe("a bus that is killed", () => {
  test("from committed to queued to spooled and back, each command is sent once and in order", async () => {
    const one = await client();
    let isWriting = true;
    const direct: string[] = [];
    const stop = await writer(({ command_id }) => {
      if (!isWriting) throw new Error("down");
      direct.push(command_id);
      return committed(command_id);
    });
    const outcomes = [await create(one)];
    isWriting = false;
    await stop();
    outcomes.push(await create(one), await create(one));
    await nats.kill9();
    for (let n = 0; n < 5; n += 1) {
      const [outcome, ms] = await timed(create(one, { deadlineMs: LONG_MS }));
      // The first command may have to detect the outage; none waits for the bus until its deadline.
      expect(ms).toBeLessThan(LONG_MS / 2);
      outcomes.push(outcome);
    }
    expect(outcomes.map(({ outcome }) => outcome)).toEqual([
      ...["committed", "queued", "queued"],
      ...Array.from({ length: 5 }, () => "spooled"),
    ]);
    await nats.restart();
    expect(await one.flush({ deadlineMs: 20_000 })).toMatchObject({ commands: 0 });
    outcomes.push(await create(one));
    expect(outcomes.at(-1)!.outcome).toBe("queued");
    expect(direct).toEqual([outcomes[0]!.commandId]);
    const messages = await queued();
    const ids = outcomes.slice(1).map(({ commandId }) => commandId);
    expect(messages.map(({ body }) => body.command_id)).toEqual(ids);
    expect(messages.at(-1)!.body.after).toBe(ids.at(-2));
    await expect(one.getTask(task, { deadlineMs: 200 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  }, 60_000);

  test("a client that starts before the bus connects to it", async () => {
    await nats.kill9();
    const one = await client();
    const first = await create(one);
    expect(first.outcome).toBe("spooled");
    await nats.restart();
    expect(await one.flush({ deadlineMs: 20_000 })).toMatchObject({ commands: 0 });
    expect((await queued()).map(({ body }) => body.command_id)).toEqual([first.commandId]);
    expect((await create(one)).outcome).toBe("queued");
  }, 60_000);
});
