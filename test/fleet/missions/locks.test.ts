// Locks of a mission's files against a standalone fleet: by the SDK and at the command line (US-302).

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { resultOf, startCli } from "../../services/cli/process.ts";

/** A busy machine takes seconds for each call. */
const CALLS = { timeout: 120_000 };
const PATIENT = { deadlineMs: 60_000 };
const MISSION = "msn-locks";

let server: TestFleet;
let first: FleetClient;
let second: FleetClient;
beforeAll(async () => {
  server = await startFleet();
  first = await server.client("specialist-1");
  second = await server.client("specialist-2");
  const mission = first.mission(MISSION);
  await mission.start({ title: "Implement user authentication" }, PATIENT);
  await mission.addSorties(
    ["specialist-1", "specialist-2"].map((assignedTo) => ({ title: "a part", assignedTo })),
    PATIENT,
  );
});
afterAll(() => server.stop());

const holders = async (): Promise<string[]> =>
  (await first.mission(MISSION).locks(PATIENT)).map(({ path, agent_id }) => `${path} ${agent_id}`);

async function fleet(...argv: string[]) {
  const { url, home } = server;
  const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "160" };
  return await callCli(argv, { env });
}

test("an agent that waits gets the file when the other one has left its block", CALLS, async () => {
  let waiting: Promise<number>;
  {
    await using held = await first.mission(MISSION).lock("src/auth.ts", { purpose: "routes" });
    expect(held.path).toBe("src/auth.ts");
    const wait = { waitMs: 100_000 };
    waiting = second
      .mission(MISSION)
      .lock("src/auth.ts", wait)
      .then(async (lock) => {
        expect(await holders()).toEqual(["src/auth.ts specialist-2"]);
        await lock.release();
        return lock.fence;
      });
    const waiters = async () => (await first.mission(MISSION).locks(PATIENT))[0]?.waiters.length;
    await expect.poll(waiters, { timeout: 60_000 }).toBe(1);
    expect(held.signal.aborted).toBe(false);
  }
  expect(await waiting).toBeGreaterThan(0);
  expect(await holders()).toEqual([]);
});

test("a lock renews itself, and says when it is lost", CALLS, async () => {
  const lock = await first.mission(MISSION).lock("src/renewed.ts", { timeoutMs: 20_000 });
  const until = async () => (await first.mission(MISSION).locks(PATIENT))[0]?.expires_at;
  const before = await until();
  await expect.poll(until, { timeout: 60_000 }).not.toBe(before);
  await second.mission(MISSION).releaseLock("src/renewed.ts", { force: true, ...PATIENT });
  await expect.poll(() => lock.signal.aborted, { timeout: 60_000 }).toBe(true);
  await lock.release();
});

test("US-302 a wait without success is refused, and an error checkpoint records it", CALLS, async () => {
  await using _held = await first.mission(MISSION).lock("src/busy.ts");
  await expect(second.mission(MISSION).lock("src/busy.ts", { waitMs: 1_000 })).rejects.toMatchObject({
    code: "CONFLICT",
    details: { held_by: "specialist-1" },
  });
  const newest = async () =>
    (await first.latest(MISSION, PATIENT)).checkpoint?.fleet?.recovery_context?.blockers;
  const blocker = "specialist-2 waited in vain for the lock on src/busy.ts, which specialist-1 holds";
  await expect.poll(newest, { timeout: 60_000 }).toEqual([blocker]);
});

test("Ctrl-C and an abort end a wait with its place, so the file goes to the next one", CALLS, async () => {
  const path = "src/wanted.ts";
  const held = await first.mission(MISSION).lock(path);
  const waiters = async () => (await first.mission(MISSION).locks({ path, ...PATIENT }))[0]?.waiters ?? [];
  const waiting = (agents: readonly string[]) =>
    expect
      .poll(async () => (await waiters()).map(({ agent_id }) => agent_id), { timeout: 60_000 })
      .toEqual(agents);
  const env = { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_AGENT_ID: "specialist-2" };
  const child = startCli(["lock", "acquire", path, "--wait", "30m", "--mission", MISSION], { env });
  const result = resultOf(child);
  await waiting(["specialist-2"]);
  child.kill("SIGINT");
  const notice = `The wait for ${path} has ended, and the file is not held.\n`;
  expect(await result).toEqual({ exit: 130, out: "", err: notice });
  await waiting([]);
  const aborted = new AbortController();
  const lost = second.mission(MISSION).lock(path, { waitMs: 100_000, signal: aborted.signal });
  await waiting(["specialist-2"]);
  aborted.abort(new Error("not needed any more"));
  await expect(lost).rejects.toThrow("not needed any more");
  await waiting([]);
  await held.release();
  expect(await holders()).toEqual([]);
});

test("files are held, listed, renewed and released at the command line", CALLS, async () => {
  const by = (agent: string, ...argv: string[]) =>
    fleet("--agent", agent, "lock", ...argv, "--mission", MISSION);
  const acquired = await by("specialist-1", "acquire", "./src/cli.ts", "--purpose", "login route");
  expect(acquired.out).toMatch(/^Locked: src\/cli\.ts\nFence: \d+\nUntil: \S+Z\n$/);
  const refused = await by("specialist-2", "acquire", "src/cli.ts", "--wait", "1s");
  expect(refused).toMatchObject({ exit: 5 });
  expect((await by("specialist-1", "renew", "src/cli.ts", "--expires", "10m")).out).toMatch(
    /^Renewed: src\/cli\.ts\n/,
  );
  expect((await fleet("locks", "--mission", MISSION)).out).toMatch(
    /^Locks of mission msn-locks\n\nFILE +HELD BY +ACQUIRED +UNTIL +WAITING +PURPOSE\nsrc\/cli\.ts +specialist-1 .* login route\n\n1 lock\n$/,
  );
  expect((await fleet("lock", "release", "src/cli.ts", "--force", "--mission", MISSION)).out).toBe(
    "Released: src/cli.ts\n",
  );
  expect((await fleet("locks", "--mission", MISSION)).out).toBe("Locks of mission msn-locks\n\nNone.\n");
});
