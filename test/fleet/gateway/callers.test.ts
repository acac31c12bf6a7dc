/** The callers of the HTTP API: keys, roles, tenants, revocations, and the refusals of everything else. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { gatewayFields } from "../../../services/gateway/config.ts";
import { start } from "../../../services/gateway/gateway.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { newRestClient, ownRestClient, type RestClient, restClient } from "../../harness/rest-client.ts";

type Json = Record<string, unknown>;

let fleet: TestFleet;
let operator: RestClient;
beforeAll(async () => {
  fleet = await startFleet({ FLEET_LOG_LEVEL: "info" });
  operator = ownRestClient(fleet);
});
afterAll(() => fleet.stop());

const run = promisify(execFile);

async function command(...args: string[]): Promise<Json> {
  const env = { ...process.env, FLEET_HOME: fleet.home, FLEET_URL: "" };
  const program = join(projectRoot, "deploy/local/fleet.mjs");
  const { stdout } = await run(process.execPath, [program, ...args, "--json"], { env, cwd: projectRoot });
  return JSON.parse(stdout) as Json;
}

/** Sends a request with headers that `fetch` would set itself. */
function statusWith(headers: Record<string, string>, path = "/api/v1/tasks"): Promise<number> {
  const url = new URL(path, fleet.gatewayUrl());
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { headers: { authorization: `Bearer ${operator.key}`, ...headers } },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      },
    );
    sent.once("error", reject).end();
  });
}

describe("API keys", () => {
  test("the fleet's own user has one, in a file that others cannot read, also after a restart", async () => {
    const path = join(fleet.home, "client", "api-key");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect((await operator.get("/caller")).body).toMatchObject({ role: "operator", tenant: "default" });
    const before = readFileSync(path, "utf8");
    await fleet.terminate();
    await fleet.start();
    expect(readFileSync(path, "utf8")).toBe(before);
    expect((await operator.get("/caller")).status).toBe(200);
  });

  test("a key from the command line has the rights of its role, until it is revoked", async () => {
    const made = await command("access", "api-key", "create", "--agent", "dashboard", "--role", "observer");
    const observer = restClient(fleet.gatewayUrl, made.key as string);
    expect((await observer.get("/caller")).body).toMatchObject({ name: "human=dashboard", role: "observer" });
    expect((await observer.get("/tasks")).status).toBe(200);
    expect(await observer.post("/tasks/any-1/take", {})).toMatchObject({
      status: 403,
      body: { code: "FORBIDDEN" },
    });
    const listed = await command("access", "api-key", "list");
    expect(JSON.stringify(listed)).toContain(made.id as string);
    expect(JSON.stringify(listed)).not.toContain("digest");
    await command("access", "api-key", "revoke", "dashboard");
    await expect.poll(async () => (await observer.get("/tasks")).status).toBe(401);
    expect((await observer.get("/tasks")).headers.get("www-authenticate")).toContain("Bearer");
  });

  test("a key from the command line is for the scopes that it names, which must exist", async () => {
    const create = ["access", "api-key", "create", "--agent", "script", "--scope"];
    const made = await command(...create, "tasks:read", "createCheckpoint");
    const caller = restClient(fleet.gatewayUrl, made.key as string);
    expect((await caller.get("/caller")).body.scopes).toEqual(["tasks:read", "createCheckpoint"]);
    await expect(command(...create, "everything")).rejects.toMatchObject({ code: 64 });
  });

  test("the server ends the connection of a revoked key, also if its record stays", async () => {
    const made = await command("access", "api-key", "create", "--agent", "copied");
    const caller = restClient(fleet.gatewayUrl, made.key as string);
    expect((await caller.get("/caller")).status).toBe(200);
    await command("access", "revoke", "copied");
    await expect.poll(async () => (await caller.get("/handoffs")).status).toBe(401);
  });

  test("a copy of the folder opens nothing: neither a key nor credentials are in it", async () => {
    const made = await command("access", "api-key", "create", "--agent", "secretive");
    const secret = secretOf(made.key as string);
    const folder = mkdtempSync(join(tmpdir(), "fleet-keys-"));
    cpSync(join(fleet.home, "gateway", "api-keys"), folder, { recursive: true });
    const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
    rmSync(folder, { recursive: true });
    expect(texts.join()).not.toContain(secret);
    expect(texts.join()).not.toMatch(/NATS USER|\bSU[A-Z2-7]{56}\b/);
  });

  test("an editor of a record cannot give its key another name", async () => {
    const caller = await newRestClient(fleet, { name: "modest" });
    const id = caller.key.split("_")[1] as string;
    const path = join(fleet.home, "gateway", "api-keys", `${id}.json`);
    writeFileSync(path, readFileSync(path, "utf8").replace('"modest"', '"mighty"'));
    expect((await caller.get("/caller")).status).toBe(401);
  });

  test("an expired key is refused", async () => {
    const caller = await newRestClient(fleet, { name: "late", expiresAt: new Date(Date.now() - 1_000) });
    expect(await caller.get("/caller")).toMatchObject({ status: 401, body: { code: "UNAUTHORIZED" } });
  });

  test("no key, a wrong key and another scheme are 401", async () => {
    for (const authorization of [
      "",
      "Bearer x",
      `Basic ${operator.key}`,
      `Bearer ${withOtherEnd(operator.key)}`,
    ])
      expect(await statusWith({ authorization })).toBe(401);
  });
});

/** Behind `fleet_`, the id of 16 characters, and `_`; the secret may have this character too. */
const secretOf = (key: string): string => key.slice(23);

/** A fixed last character would be the right one now and then. */
const withOtherEnd = (key: string): string => key.slice(0, -1) + (key.endsWith("A") ? "E" : "A");

test("a caller sees nothing of another tenant", async () => {
  const body = { agent_type: "qa", execution_state: { phase: "testing" } };
  const other = await newRestClient(fleet, { name: "spy", tenant: "other", role: "operator" });
  const made = await operator.post("/checkpoints", { task_id: "walls-1", ...body });
  expect(made.status).toBe(201);
  const id = made.body.checkpoint_id as string;
  expect((await operator.get(`/checkpoints/${id}`)).status).toBe(200);
  expect((await other.get(`/checkpoints/${id}`)).status).toBe(404);
  expect((await other.get("/tasks")).body).toMatchObject({ tasks: [] });
  expect((await other.post(`/checkpoints/${id}/finalize`, { status: "failed" })).status).toBe(404);
});

test("another Host, another Origin and a path without a method are refused", async () => {
  expect(await statusWith({ host: "attacker.example" })).toBe(421);
  expect(await statusWith({ origin: "https://attacker.example" })).toBe(403);
  expect(await statusWith({ origin: fleet.gatewayUrl() })).toBe(200);
  expect((await operator.send("PUT", "/tasks")).headers.get("allow")).toBe("GET");
  const preflight = await fetch(`${fleet.gatewayUrl()}/api/v1/tasks`, { method: "OPTIONS" });
  expect(preflight.headers.get("access-control-allow-origin")).toBeNull();
});

test("wrong input names its field: body, type, size, query string", async () => {
  const send = (body: string, type = "application/json") =>
    operator.send("POST", "/checkpoints", { headers: { "content-type": type }, body });
  expect(await send("{")).toMatchObject({ status: 400, body: { code: "INVALID" } });
  expect(await send("[]")).toMatchObject({ status: 400 });
  expect(await send("task_id=x", "application/x-www-form-urlencoded")).toMatchObject({ status: 415 });
  expect(await send(JSON.stringify({ task_id: "t", note: "x".repeat(2_100_000) }))).toMatchObject({
    status: 413,
    body: { code: "TOO_LARGE" },
  });
  expect(await operator.get("/tasks?limit=many")).toMatchObject({
    status: 400,
    body: { fields: [{ path: "limit", expected: "an integer" }] },
  });
  expect(await operator.get("/tasks?sate=owned")).toMatchObject({ body: { fields: [{ path: "sate" }] } });
  expect(await operator.post("/checkpoints", { task_id: "a.b" })).toMatchObject({ status: 400 });
  expect((await operator.get("/tasks/a.%2e/audit")).headers.get("content-type")).toBe(
    "application/problem+json",
  );
});

test("a repeated Idempotency-Key has one effect, whether it is a UUIDv7 or a text", async () => {
  const body = { task_id: "twice-1", agent_type: "qa", execution_state: { phase: "testing" } };
  for (const key of ["01a20efd-b075-7fb4-879f-3704f56c3e99", "order 66".replace(" ", "-")]) {
    // A UUIDv7 has its time; this one is of now.
    const now = Date.now().toString(16).padStart(12, "0");
    const used = key.startsWith("01a2") ? `${now.slice(0, 8)}-${now.slice(8)}${key.slice(13)}` : key;
    const headers = { "idempotency-key": used };
    const first = await operator.post("/checkpoints", body, headers);
    const second = await operator.post("/checkpoints", body, headers);
    expect(first, used).toMatchObject({ status: 201, body: { replayed: false } });
    expect(second).toMatchObject({ status: 201, body: { replayed: true } });
    expect(second.body.checkpoint_id).toBe(first.body.checkpoint_id);
    const other = await operator.post(
      "/checkpoints",
      { ...body, execution_state: { phase: "reviewing" } },
      headers,
    );
    expect(other).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
  }
  expect((await operator.get("/tasks/twice-1/checkpoints")).body.checkpoints).toHaveLength(2);
});

test("a caller that sends too many requests gets 429 with the time of the next one", async () => {
  const hasty = await newRestClient(fleet, { name: "hasty" });
  const log = createLogger({ service: "test", level: "silent" });
  const settings = { ...readConfig(gatewayFields, { FLEET_GATEWAY_PORT: "-1" }), gatewayRate: 1 };
  const context = { log, clock: systemClock, metrics: createMetrics() };
  const keysFolder = join(fleet.home, "gateway", "api-keys");
  const gateway = await start(context, {
    ownCredentials: undefined,
    settings,
    bus: { url: fleet.url },
    keysFolder,
    credentialsOfToken: undefined,
    stopTimeoutMs: 1_000,
  });
  onTestFinished(() => gateway.stop());
  const { get } = restClient(() => gateway.url, hasty.key);
  const answers = await Promise.all(Array.from({ length: 100 }, () => get("/caller")));
  const refused = answers.filter(({ status }) => status === 429);
  expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(answers.some(({ status }) => status === 200)).toBe(true);
});

test("a caller has a limited number of open requests, also of those whose bodies never come", async () => {
  const caller = await newRestClient(fleet, { name: "endless" });
  const { hostname, port, host } = new URL(fleet.gatewayUrl());
  const begun =
    `POST /api/v1/checkpoints HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${caller.key}\r\n` +
    "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
  // More than the limit: some may be refused by the rate of the caller.
  const sockets = Array.from({ length: 512 }, () =>
    connect({ host: hostname, port: Number(port) }, function (this: Socket) {
      this.write(begun);
    }),
  );
  for (const socket of sockets) socket.on("error", () => {});
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  await expect.poll(async () => (await caller.get("/caller")).status, { timeout: 60_000 }).toBe(429);
  expect((await operator.get("/caller")).status).toBe(200);
  for (const socket of sockets) socket.destroy();
  await expect.poll(async () => (await caller.get("/caller")).status).toBe(200);
});

test("the bus away is 503 with Retry-After; afterwards the same caller is served again", async () => {
  await fleet.killNats();
  const statuses = new Set<number>();
  await expect
    .poll(async () => {
      const { status, headers } = await operator.get("/tasks");
      statuses.add(status);
      if (status === 503) expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
      return status;
    })
    .toBe(200);
  for (const status of statuses) expect([200, 503, 504]).toContain(status);
});

test("the document and its page need no key, and the page loads nothing from elsewhere", async () => {
  const document = (await (await fetch(`${fleet.gatewayUrl()}/api/openapi.json`)).json()) as Json;
  expect(document.openapi).toBe("3.1.0");
  const page = await fetch(`${fleet.gatewayUrl()}/`);
  expect(page.url).toBe(`${fleet.gatewayUrl()}/api/docs`);
  const html = await page.text();
  expect(html).toContain("createCheckpoint");
  expect(html).not.toMatch(/<script|src=|https?:\/\/(?!127)/);
});

test("each request is a line of the log with its caller, and a number of the metrics; the key is in neither", async () => {
  await operator.get("/tasks/logged-1");
  // Sent by mistake where it does not belong.
  expect((await operator.get(`/handoffs/${operator.key}`)).status).toBe(400);
  await expect.poll(() => fleet.output()).toContain("[redacted: Fleet key]");
  await expect.poll(() => fleet.output()).toMatch(/"operation":"getTask","status":404[^\n]*"caller":"human=/);
  const metrics = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
  expect(metrics).toMatch(/fleet_gateway_requests_total\{[^}]*op="getTask"[^}]*\} [1-9]/);
  expect(fleet.output()).not.toContain(secretOf(operator.key));
});
