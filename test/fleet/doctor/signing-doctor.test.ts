// `fleet doctor` and the faults of signing, each made for real: a service without a key or with another one, an open key file, a store that an
// unsigned service began, an old key, and rotations that no holder makes.

import { chmodSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import {
  environmentOf,
  type Role,
  startService,
  type TestService,
} from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";
import { resultOf, startCli } from "../../services/cli/process.ts";
import { type BusServer, prepareBusServer } from "./bus-server.ts";
import { checksOf, type DoctorReport, examine } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const TEST_MS = 200_000;
const SOON = { timeout: 60_000, interval: 250 };
const DAY_MS = 86_400_000;
const CODES = ["signing.services", "signing.files", "signing.required", "signing.keys"] as const;
const machine = prepareMachine();
const { folder } = machine;
const shared = machine.signingKey("signing-key.pem");

let bus: BusServer;
let reader: TestService;
let writer: TestService;

const settings = (signingKey: string, store = "store", server = bus) => ({
  ...environmentOf({ busUrl: server.url, storeUrl: `lmdb:${folder}/${store}?shared` }),
  FLEET_NATS_MONITOR_URL: server.monitorUrl,
  FLEET_SIGNING_KEY: signingKey,
});
const doctor = (server = bus): Promise<DoctorReport> => examine(machine.forBus(server.url));
const nameOf = ({ role, pid }: TestService): string => `${role}/\\S+-${pid}`;
const shortIdIn = (file: string): string => signingKeyFrom(readFileSync(file, "utf8")).id.slice(0, 16);

/** What the checks of signing found, without the sound ones. */
const problems = async (server = bus): Promise<Record<string, string | undefined>> => {
  const report = await doctor(server);
  const found = CODES.flatMap((code) => checksOf(report, code));
  expect(found.length).toBeGreaterThanOrEqual(CODES.length);
  return Object.fromEntries(
    found.flatMap(({ code, state, found: text, fix }) =>
      state === "ok" ? [] : [[`${state} ${code}`, `${text} | ${fix}`]],
    ),
  );
};

async function startExtra(role: Role, env: NodeJS.ProcessEnv, program?: string): Promise<TestService> {
  const extra = await startService(role, env, program === undefined ? {} : { program });
  onTestFinished(() => extra.kill9());
  return extra;
}

const keys = async (...args: string[]) => {
  const { exit, err } = await callCli(["keys", ...args], { env: machine.forBus(bus.url) });
  expect({ exit, err }).toMatchObject({ exit: 0 });
};

beforeAll(async () => {
  bus = await prepareBusServer();
  await bus.start();
  reader = await startService("reader", settings(shared));
  writer = await startService("writer", settings(shared));
}, TEST_MS);
afterAll(async () => {
  await Promise.all([reader?.kill9(), writer?.kill9()]);
  await bus?.remove();
});

test("services that share a key in a new store have no problem", { timeout: TEST_MS }, async () => {
  await expect.poll(problems, SOON).toEqual({});
  const report = await doctor();
  expect(checksOf(report, "signing.services")[0]?.found).toBe(`2 instances with key ${shortIdIn(shared)}`);
  expect(checksOf(report, "signing.keys")[0]?.found).toBe("1 key in use, the oldest 0 days old");
});

test("a key file that others can read is a failure, with the commands that close it", {
  timeout: TEST_MS,
}, async () => {
  chmodSync(shared, 0o644);
  try {
    const text = (service: TestService) =>
      expect.stringMatching(
        `^${shared} of ${nameOf(service)} has mode 0644: others can use the key \\| .chmod 600 ${shared}. .*keys revoke ${shortIdIn(shared)}`,
      ) as string;
    const reported = async () =>
      checksOf(await doctor(), "signing.files")
        .map(({ found, fix }) => `${found} | ${fix}`)
        .sort();
    // For a moment the services answer with what they found before.
    await expect.poll(reported, SOON).toEqual([text(reader), text(writer)]);
    expect(await problems()).toEqual({ "failed signing.files": expect.anything() });
  } finally {
    chmodSync(shared, 0o600);
  }
  await expect.poll(problems, SOON).toEqual({});
});

test("a service with another key is a warning, and after its end so is the request for its next key", {
  timeout: TEST_MS,
}, async () => {
  const own = machine.signingKey("coordinator.pem");
  const extra = await startExtra("coordinator", settings(own));
  const short = shortIdIn(own);
  await expect.poll(problems, SOON).toEqual({
    "warning signing.services": expect.stringMatching(
      `^the services have different signing keys: .*${short} of ${nameOf(extra)}.* \\| .*one file in FLEET_SIGNING_KEY`,
    ),
  });
  await extra.kill9();
  await keys("rotate", short, "--no-wait");
  const ahead = await doctorAhead();
  expect(checksOf(ahead, "signing.keys")).toMatchObject([
    {
      state: "warning",
      found: expect.stringMatching(
        `^the rotation of key ${short} .* was not made: no running service has it$`,
      ),
      fix: expect.stringContaining(`keys revoke ${short} --reason lost`),
    },
  ]);
  await keys("revoke", short, "--reason", "lost");
  expect(checksOf(await doctorAhead(), "signing.keys")).toMatchObject([{ state: "ok" }]);
});

/** The doctor later, by default a minute: holders have had time for a rotation. */
async function doctorAhead(byMs = 60_000): Promise<DoctorReport> {
  const preload = pathToFileURL(join(projectRoot, "test/fleet/doctor/clock-ahead.program.ts")).href;
  const env = {
    ...machine.forBus(bus.url),
    ...{ NODE_OPTIONS: `--import=${preload}`, FLEET_TEST_SKEW_MS: String(byMs) },
  };
  const { exit, out, err } = await resultOf(startCli(["doctor", "--json", "--timeout", "20s"], { env }));
  expect(err).toBe("");
  return { exit, ...JSON.parse(out) } as DoctorReport;
}

test("a lost key file is a failure, and so the requested rotation is not made", {
  timeout: TEST_MS,
}, async () => {
  const place = join(folder, "place");
  mkdirSync(place, { mode: 0o700 });
  const extra = await startExtra("coordinator", settings(machine.signingKey("place/key.pem")));
  const file = join(place, "key.pem");
  const short = shortIdIn(file);
  renameSync(place, `${place}.lost`);
  await keys("rotate", short, "--no-wait");
  const report = await doctorAhead();
  expect(checksOf(report, "signing.files").filter(({ state }) => state !== "ok")).toMatchObject([
    {
      state: "failed",
      found: expect.stringMatching(
        `^${nameOf(extra)} cannot read the file of its signing key any more: ${file}$`,
      ),
      fix: expect.stringContaining("Put the file back"),
    },
  ]);
  expect(checksOf(report, "signing.keys")).toMatchObject([
    {
      state: "warning",
      found: expect.stringMatching(`^the rotation of key ${short} .* was not made by ${nameOf(extra)}$`),
      fix: expect.stringContaining("Put a new key into the file"),
    },
  ]);
  renameSync(`${place}.lost`, place);
  await expect.poll(() => shortIdIn(file), SOON).not.toBe(short);
});

test("a store that an unsigned service began does not require signatures, and a service without a key is named", {
  timeout: TEST_MS,
}, async () => {
  const other = await prepareBusServer();
  await other.start();
  onTestFinished(() => other.remove());
  const first = await startExtra("writer", settings("off", "older", other));
  await startExtra("reader", settings("off", "older", other));
  const write = "checkpoint create --task t --type qa --phase testing --next more -q";
  const env = { ...machine.forBus(other.url), FLEET_AGENT_ID: "tester" };
  expect((await callCli(write.split(" "), { env })).exit).toBe(0);
  await startExtra("coordinator", settings(shared, "older", other));
  await expect
    .poll(() => problems(other), SOON)
    .toEqual({
      "warning signing.services": expect.stringMatching(
        `^without a signing key: .*${nameOf(first)}.* \\| Give it the key of the others with FLEET_SIGNING_KEY`,
      ),
      "warning signing.required": expect.stringContaining("does not require signatures"),
    });
});

test("a key that is older than a yearly rotation is a warning", { timeout: TEST_MS }, async () => {
  const old = machine.signingKey("old.pem");
  const skewMs = -(LIMITS.signing_key_age_ms_warn + DAY_MS);
  const program = "test/fleet/doctor/skewed-coordinator.program.ts";
  const past = await startExtra(
    "coordinator",
    { ...settings(old), FLEET_TEST_SKEW_MS: String(skewMs) },
    program,
  );
  await past.kill9();
  const short = shortIdIn(old);
  await expect.poll(problems, SOON).toEqual({
    "warning signing.keys": expect.stringMatching(
      `^key ${short} of coordinator is 40\\d days old \\| .*fleet keys rotate ${short}.:`,
    ),
  });
});

test("a key that a clock an hour ahead has registered is a warning, also after its replacement", {
  timeout: TEST_MS,
}, async () => {
  const file = machine.signingKey("fast.pem");
  const short = shortIdIn(file);
  const env = { ...settings(file), FLEET_TEST_SKEW_MS: "3600000" };
  const fast = await startExtra("coordinator", env, "test/fleet/doctor/skewed-coordinator.program.ts");
  await fast.kill9();
  const found = (report: DoctorReport) =>
    checksOf(report, "signing.keys").filter((check) => check.found.startsWith(`key ${short} `));
  expect(found(await doctor())).toMatchObject([
    {
      state: "warning",
      found: expect.stringMatching(/ of coordinator begins at \S+Z, ahead of this clock$/),
      fix: expect.stringContaining("date -u"),
      meaning: expect.stringContaining("before the begin of its key is rejected"),
    },
  ]);
  // Its clock is right.
  await startExtra("coordinator", settings(file));
  const next = shortIdIn(file);
  expect(next).not.toBe(short);
  const replaced = {
    state: "warning",
    found: `key ${short} of coordinator is still in use, though ${next} has replaced it and no running service has it`,
    fix: expect.stringContaining(`keys revoke ${short} --reason replaced`),
  };
  await expect.poll(async () => found(await doctorAhead(3_700_000)), SOON).toMatchObject([replaced]);
  await keys("revoke", short, "--reason", "replaced");
  expect(found(await doctorAhead(3_700_000))).toEqual([]);
});
