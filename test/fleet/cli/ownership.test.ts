// `fleet fence` against a standalone fleet: ownership of a task, in exit codes.

import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { administratorBus } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

let server: TestFleet;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(() => server.stop());

const fleet = (line: string, agent = "one"): Promise<Result> => {
  const env = {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: agent,
  };
  return callCli(line.split(" "), { env });
};

test("a task is taken, checked, written to, taken over and released", async () => {
  expect(await fleet("fence check auth 0")).toMatchObject({ exit: 0, err: "" });
  const taken = await fleet("fence take auth");
  expect(taken).toMatchObject({ exit: 0, err: "" });
  expect(taken.out).toBe("Taken: task auth, by one\nFence: 1; give it with every command on the task\n");
  expect((await fleet("fence check auth 1 --json")).out).toContain('"current": true');
  const written = await fleet("checkpoint --task auth --type qa --phase testing --fence 1");
  expect(written).toMatchObject({ exit: 0, err: "" });

  expect(await fleet("fence take auth --expected-fence 0", "two")).toMatchObject({ exit: 5, out: "" });
  expect(await fleet("fence take auth --quiet", "two")).toEqual({ exit: 0, out: "2\n", err: "" });
  const superseded = await fleet("fence check auth 1 --json");
  expect(superseded).toMatchObject({ exit: 7, out: "" });
  expect(JSON.parse(superseded.err).error).toMatchObject({
    code: "FENCED",
    details: { fence: 1, current_fence: 2, owner: "two" },
  });
  expect(await fleet("checkpoint --task auth --type qa --phase testing --fence 1")).toMatchObject({
    exit: 7,
  });
  expect(await fleet("fence check auth 9")).toMatchObject({ exit: 65, out: "" });

  const released = await fleet("fence release auth --fence 2", "two");
  expect(released).toEqual({ exit: 0, out: "Released: task auth, which keeps fence 2\n", err: "" });
  expect(JSON.parse((await fleet("task show auth --json")).out)).toMatchObject({ owner: null, fence: 2 });
  expect(await fleet("fence check auth")).toMatchObject({ exit: 64 });
}, 180_000);

test("a superseded agent is refused at once, also behind a command that can never be applied", async () => {
  const [one, two] = [await server.client("one"), await server.client("two")];
  const first = await one.takeTask("behind");
  await two.takeTask("behind");
  const bus = await administratorBus(server, "one");
  const ask = async (fence: number) => {
    const checkpoint = { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } };
    const request = { command_id: uuidv7(), after: uuidv7(), fence, checkpoint };
    const subject = SUBJECTS.command("default", "one", "behind", "create");
    const body = Buffer.from(JSON.stringify(request));
    return JSON.parse(
      Buffer.from((await bus.request(subject, { body }, { timeoutMs: 5_000 })).body).toString(),
    );
  };
  expect(await ask(first.fence ?? 0)).toMatchObject({ status: "error", error: { code: "FENCED" } });
  expect(await ask(2)).toMatchObject({ status: "queued" });
  await bus.close();
}, 60_000);
