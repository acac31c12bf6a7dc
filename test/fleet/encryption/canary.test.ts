// Content of every kind goes through a fleet with everything encrypted, and a search of all raw bytes that it leaves finds none of it: not
// after a kill, not after a stop. The same search finds the content of a fleet without encryption, in each of the places.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesBelow, filesWith, holdsText } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { openHooks, type TestHooks } from "../../services/hook/hook-process.ts";

const LAST_MS = 480_000;
const SOON = { timeout: 90_000, interval: 100 };
const PATIENT = { deadlineMs: 60_000 };
const NOWHERE = "nats://127.0.0.1:1";
const ARTIFACT_BYTES = 200_000;

let folder: string;
let home: string;
let canary: string;
/** A word with capitals in content. The index of the search writes it in small letters, so these are found in the index alone. */
let word: string;
let collector: Server;
let traces: Buffer[];
let fleet: TestFleet | undefined;
let hooks: TestHooks | undefined;
let waitingHooks: TestHooks | undefined;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-canary-"));
  home = join(folder, "home");
  canary = `canary${randomBytes(10).toString("hex")}`;
  word = `WORD${randomBytes(10).toString("hex").toUpperCase()}`;
  traces = [];
  collector = createServer(async (request, response) => {
    for await (const part of request) traces.push(part as Buffer);
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  }).listen(0, "127.0.0.1");
  await once(collector, "listening");
});
afterEach(async () => {
  hooks?.stop();
  waitingHooks?.stop();
  await fleet?.stop();
  collector.close();
  rmSync(folder, { recursive: true, force: true });
}, LAST_MS);

const at = (...names: string[]) => join(folder, ...names);

async function start(settings: Record<string, string>): Promise<void> {
  const { port } = collector.address() as AddressInfo;
  const env = {
    FLEET_GATEWAY_PORT: "-1",
    FLEET_LOG_LEVEL: "debug",
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    ...settings,
  };
  fleet = await startFleet(env, { home });
}

/** The client is an operator, so all of it is allowed. */
async function writeContent(client: FleetClient): Promise<void> {
  const text = (what: string) => `${canary} ${what}`;
  const content = { goal: text(`goal ${word}`), current_focus: text("focus"), pending_items: [text("item")] };
  const task = await client.takeTask("secret", PATIENT);
  const file = at("attached.txt");
  writeFileSync(file, Buffer.alloc(ARTIFACT_BYTES, `${canary} artifact\n`));
  await task.attach(file, { mediaType: "text/plain" });
  rmSync(file);
  await task.checkpoint(input(content), PATIENT);
  const { checkpointId } = await task.checkpoint(input({ ...content, goal: text("second") }), PATIENT);
  await client.updateCheckpoint(
    checkpointId,
    { execution_state: { current_focus: text("later") } },
    { ...PATIENT, fence: task.fence },
  );
  await task.handOff({ toAgentType: "qa", reason: text("reason"), ...PATIENT });
  await client.admin.retention.hold("secret", { hold: "case", caseReference: text("case"), ...PATIENT });
  const mission = client.mission("msn-secret");
  await mission.start({ title: text("mission") }, PATIENT);
  await mission.addSorties([{ title: text("sortie"), assignedTo: "other" }], PATIENT);
  await mission.send({ to: "other", subject: text("subject"), body: text("body") }, PATIENT);
  await acknowledgeAlert(client, `ask ${canary}@example.org, ${text("note")}`);
}

/** No agent accepts the offer, which raises an alert. */
async function acknowledgeAlert(client: FleetClient, note: string): Promise<void> {
  const ids = async () => (await client.admin.listAlerts(PATIENT)).alerts.map(({ alert }) => alert.id);
  await expect.poll(async () => (await ids()).length, SOON).toBeGreaterThan(0);
  await client.admin.acknowledgeAlert(await ids(), { note, ...PATIENT });
}

/** The prompt of an agent program: its hook has brought it to the fleet when this resolves. */
async function prompt(): Promise<void> {
  const cwd = at("work");
  mkdirSync(cwd);
  hooks = openHooks("claude-code", { FLEET_HOME: home, FLEET_URL: fleet!.url, HOME: folder });
  const session = {
    session_id: "5f0e2f0a-7d0a-4a57-9a54-0a8d7a4f5b11",
    cwd,
    transcript_path: at("none.jsonl"),
  };
  const events = [
    { hook_event_name: "SessionStart", source: "startup" },
    { hook_event_name: "UserPromptSubmit", prompt: `${canary} prompt` },
  ];
  for (const event of events) await hooks.run(event.hook_event_name, { ...session, ...event });
  await hooks.drained();
}

/** The prompt of an agent program whose fleet is away: its event waits in the inbox. */
async function waitingPrompt(env: Record<string, string>): Promise<void> {
  const away = {
    FLEET_HOME: at("no-home"),
    FLEET_URL: NOWHERE,
    FLEET_SPOOL_DIR: at("hook-spool"),
    HOME: folder,
  };
  waitingHooks = openHooks("claude-code", { ...away, ...env });
  const session = { session_id: "0b6a3f0e-3d0b-4c1e-8a57-6a1c2f9d7e42", cwd: at("work") };
  const prompts = ["first", "second"].map((which) => ({ ...session, prompt: `${canary} ${which} prompt` }));
  for (const prompt of prompts)
    await waitingHooks.run("UserPromptSubmit", { hook_event_name: "UserPromptSubmit", ...prompt });
  const inbox = join(waitingHooks.folder, "inbox");
  // The helper has tried the first one, and keeps both.
  await expect.poll(() => waitingHooks?.log().length, SOON).toBeGreaterThan(1);
  expect(filesBelow(inbox).length).toBe(2);
}

/** All of the tenant, as a file and as a bundle. */
async function exportAll(...keys: string[]): Promise<void> {
  const env = { FLEET_HOME: home, FLEET_URL: fleet!.url };
  mkdirSync(at("export"));
  for (const form of [
    ["--out", at("export", "tenant.jsonl")],
    ["--bundle", at("export", "tenant.tar")],
  ]) {
    const { exit, err } = await callCli(["export", "--all", ...form, ...keys], { env });
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
  }
}

/** A command of an agent that reaches no bus. */
async function spool(env: Record<string, string>): Promise<void> {
  const spooler = await connect({
    ...{ url: NOWHERE, agentId: "away", spoolDir: at("spool"), connectTimeoutMs: 200, onWarning: () => {} },
    env: { HOME: folder, FLEET_HOME: at("no-home"), ...env },
  });
  const outcome = await spooler.createCheckpoint({ taskId: "away", checkpoint: input({ goal: canary }) });
  expect(outcome.outcome).toBe("spooled");
  await spooler.close();
}

/** The fleet stands still, so the command is still in the queue at the kill. */
async function killWithQueue(): Promise<void> {
  const client = await fleet!.client("queuer");
  process.kill(fleet!.pid(), "SIGSTOP");
  const checkpoint = input({ goal: `${canary} queued` });
  const outcome = await client.createCheckpoint({ taskId: "queued", checkpoint, deadlineMs: 30_000 });
  expect(outcome.outcome).toBe("queued");
  await fleet!.kill9();
}

async function backUp(env: Record<string, string>): Promise<void> {
  const { exit, err } = await callCli(["backup", at("backup")], { env: { FLEET_HOME: home, ...env } });
  expect({ exit, err }).toEqual({ exit: 0, err: "" });
}

/** Resolves when the mirror has the newest checkpoint of the task. */
const mirrored = (checkpoints: number) =>
  expect
    .poll(
      () =>
        filesBelow(join(home, "checkpoints", "secret")).filter((path) => /\/chk-[^/]+$/.test(path)).length,
      SOON,
    )
    .toBe(checkpoints);

/** The places of raw bytes, each with the files in which the canary is. */
const places = () => ({
  store: filesWith(join(home, "store"), canary),
  terms: filesWith(join(home, "store"), word.toLowerCase()),
  ...ofBus(filesWith(join(home, "nats"), canary)),
  mirror: filesWith(join(home, "checkpoints"), canary),
  artifacts: filesWith(join(home, "artifacts"), canary),
  spool: filesWith(at("spool"), canary),
  backup: filesWith(at("backup"), canary),
  export: filesWith(at("export"), canary),
  inbox: filesWith(join(waitingHooks!.folder, "inbox"), canary),
});

function ofBus(files: readonly string[]) {
  const isOfQueue = (path: string) => path.split("/").includes(STREAMS.queue);
  return { queue: files.filter(isOfQueue), streams: files.filter((path) => !isOfQueue(path)) };
}

const NONE = {
  store: [],
  terms: [],
  queue: [],
  streams: [],
  mirror: [],
  artifacts: [],
  spool: [],
  backup: [],
  export: [],
  inbox: [],
};

/** Everything else that the fleet, its agents and its hooks have left. */
function expectNowhereElse(): void {
  expect(filesWith(hooks!.folder, canary), "the folder of hooks").toEqual([]);
  expect(holdsText(readFileSync(join(waitingHooks!.folder, "hook.log")), canary), "the log of hooks").toBe(
    false,
  );
  expect(filesWith(at("hook-spool"), canary), "the spool of hooks").toEqual([]);
  const logged = fleet!.output().split("\n");
  expect(logged.filter((line) => holdsText(Buffer.from(line), canary))).toEqual([]);
  expect(traces.length).toBeGreaterThan(0);
  expect(holdsText(Buffer.concat(traces), canary), "the traces").toBe(false);
}

/** Also in a place of which the test does not know. */
function expectInNoFile(): void {
  for (const text of [canary, word, word.toLowerCase()]) expect(filesWith(folder, text)).toEqual([]);
}

async function useEverything(
  settings: Record<string, string>,
  spoolSettings: Record<string, string>,
  ...exportKeys: string[]
): Promise<void> {
  const policy = at("policy.json");
  writeFileSync(policy, JSON.stringify({ defaults: { offer: { deadline_ms: 1_000, max_attempts: 1 } } }));
  await start({ FLEET_POLICY: policy, ...settings });
  const client = await fleet!.client("owner");
  await writeContent(client);
  await prompt();
  await spool(spoolSettings);
  await waitingPrompt(spoolSettings);
  await exportAll(...exportKeys);
  await mirrored(2);
  const foundBy = async (text: string) => (await client.searchCheckpoints({ text, ...PATIENT })).checkpoints;
  await expect.poll(async () => (await foundBy(word)).length, SOON).toBeGreaterThan(0);
  // Spans leave in batches, every few seconds.
  await expect.poll(() => Buffer.concat(traces).includes("alert_ack"), SOON).toBe(true);
}

test(
  "without encryption the search finds content in each place, and in no log, trace or folder of hooks",
  async () => {
    await useEverything({}, {});
    await backUp({});
    await killWithQueue();
    const found = places();
    for (const [place, files] of Object.entries(found)) expect(files, place).not.toEqual([]);
    expectNowhereElse();
  },
  LAST_MS,
);

test(
  "with encryption no raw byte shows content, after a kill and after a stop",
  async () => {
    const keys = { root: at("root.key"), spool: at("spool.key"), export: at("export.key") };
    for (const path of Object.values(keys)) newEncryptionKeyFile(path);
    const settings = { FLEET_ENCRYPTION_KEY: `file:${keys.root}` };
    const exportKey = ["--encrypt-with", `file:${keys.export}`];
    await useEverything(settings, { FLEET_SPOOL_KEY: `file:${keys.spool}` }, ...exportKey);
    await backUp(settings);
    await killWithQueue();
    expect(places()).toEqual(NONE);
    expectNowhereElse();
    expectInNoFile();

    await fleet!.start();
    const client = await fleet!.client("reader");
    // What is encrypted is still there.
    const latest = await client.latest("secret", PATIENT);
    expect(latest.checkpoint?.execution_state.goal).toBe(`${canary} second`);
    const { checkpoints } = await client.searchCheckpoints({ text: canary, ...PATIENT });
    expect(checkpoints.length).toBeGreaterThan(0);
    const queued = async () => (await client.latest("queued", PATIENT)).checkpoint?.execution_state.goal;
    await expect.poll(queued, SOON).toBe(`${canary} queued`);
    expect(await fleet!.terminate()).toBe(0);
    expect(places()).toEqual(NONE);
    expectNowhereElse();
    expectInNoFile();
    // The root key is in its own file only, and the keys that it wraps are in none.
    const secret = readFileSync(keys.root, "utf8").trim();
    expect(filesWith(folder, secret)).toEqual([keys.root]);
  },
  LAST_MS,
);
