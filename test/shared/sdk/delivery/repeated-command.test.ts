// A command that is sent again while its outcome is not known is marked, because a copy of it may be in the queue.

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { HEADERS } from "../../../../shared/protocol/subjects.ts";
import { connect, type FleetClient } from "../../../../shared/sdk/sdk.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { committedAnswer, serveCommands } from "./served-commands.ts";

let nats: TestNats;
let bus: Bus;
let client: FleetClient;
/** The answers to the next requests; after the last one, each request is committed. */
let errors: FleetError[] = [];
/** The header of each request. */
let repeated: (string | undefined)[] = [];

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "writer", identity: "writer", log: testLog });
  await serveCommands(bus, ({ command_id }, { headers }) => {
    repeated.push(headers.get(HEADERS.repeated));
    const error = errors.shift();
    return error === undefined
      ? committedAnswer(command_id, "t")
      : { status: "error", error: error.toBody() };
  });
  client = await connect({ url: nats.url, agentId: "agent", fallback: "none", env: {} });
});

beforeEach(() => {
  errors = [];
  repeated = [];
});

afterAll(async () => {
  await client?.close();
  await bus?.close();
  await nats?.stop();
});

const timeout = () => new FleetError("TIMEOUT", "the queue did not answer");
const unavailable = () => new FleetError("UNAVAILABLE", "overloaded");
const conflict = () => new FleetError("CONFLICT", "the task has another state");

let ids = 0;
const newId = () => `019bef77-bb42-7a31-b5c4-${String(++ids).padStart(12, "0")}`;
/** A deadline of 1 ms permits one attempt. */
const write = (commandId: string, fallback: "none" | "queue", deadlineMs = 60_000) =>
  client
    .task("t")
    .checkpoint(
      { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
      { commandId, deadlineMs, fallback },
    );

test.each(["none", "queue"] as const)(
  "with the fallback %s, attempts after TIMEOUT are repetitions, and those after UNAVAILABLE are not",
  async (fallback) => {
    errors = [unavailable(), timeout(), unavailable()];
    expect(await write(newId(), fallback)).toMatchObject({ outcome: "committed" });
    expect(repeated).toEqual([undefined, undefined, "1", "1"]);
    expect(await write(newId(), fallback)).toMatchObject({ outcome: "committed" });
    expect(repeated.at(-1)).toBeUndefined();
  },
);

test("a caller that repeats a command after TIMEOUT sends a repetition, until there is an answer", async () => {
  const commandId = newId();
  // Both at once: on a busy machine the first request may arrive after the end of its attempt.
  errors = [timeout(), conflict()];
  await expect(write(commandId, "none", 1)).rejects.toMatchObject({ code: "TIMEOUT" });
  await expect(write(commandId, "none")).rejects.toMatchObject({ code: "CONFLICT" });
  await write(commandId, "none");
  expect(repeated).toEqual([undefined, "1", undefined]);
});
