/** Callers of the HTTP API with tokens of an identity provider, and the scopes of tokens and keys. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, ownRestClient, type RestClient, restClient } from "../../harness/rest-client.ts";
import {
  AUDIENCE,
  startTokenIssuer,
  type TokenIssuer,
  type TokenOptions,
} from "../../harness/token-issuer.ts";

const KUBERNETES = "https://kubernetes.default.svc.cluster.local";
const CLAIMS = { org: "acme", login: "ada", role: "agent" };
const folder = mkdtempSync(join(tmpdir(), "fleet-tokens-"));
let issuer: TokenIssuer;
let fleet: TestFleet;
beforeAll(async () => {
  issuer = await startTokenIssuer();
  const keys = { keys_url: issuer.url, audience: AUDIENCE };
  const named = { tenant: { claim: "org" }, name: { claim: "login" }, role: { claim: "role" } };
  const issuers = [
    { issuer: issuer.url, ...keys, ...named, roles: ["agent", "observer"] },
    { issuer: "urn:scoped", ...keys, ...named, scopes: { claim: "scope", prefix: "fleet." } },
    {
      issuer: KUBERNETES,
      ...keys,
      tenant: { claim: ["kubernetes.io", "namespace"] },
      name: { claim: ["kubernetes.io", "serviceaccount", "name"] },
      role: { value: "agent" },
    },
  ];
  writeFileSync(join(folder, "issuers.json"), JSON.stringify({ issuers }));
  fleet = await startFleet({ FLEET_GATEWAY_ISSUERS: join(folder, "issuers.json"), FLEET_LOG_LEVEL: "info" });
});
afterAll(async () => {
  await fleet?.stop();
  issuer?.close();
  rmSync(folder, { recursive: true, force: true });
});

const tokenOf = (options: TokenOptions = {}) =>
  issuer.token({ ...options, claims: { ...CLAIMS, ...options.claims } });
const callerWith = async (options: TokenOptions = {}): Promise<RestClient> =>
  restClient(fleet.gatewayUrl, await tokenOf(options));
const body = { task_id: "token-1", agent_type: "qa", execution_state: { phase: "testing" } };

test("a token gives the name, the tenant and the role of its claims, and the bus keeps to them", async () => {
  const agent = await callerWith();
  expect((await agent.get("/caller")).body).toMatchObject({
    ...{ tenant: "acme", name: "ada", role: "agent", scopes: null },
    expires_at: expect.any(String) as string,
  });
  await expect.poll(async () => (await agent.post("/checkpoints", body)).status).toBe(201);
  const watcher = await callerWith({ claims: { login: "eve", role: "observer" } });
  expect((await watcher.get("/tasks/token-1")).body).toMatchObject({ owner: null, task_id: "token-1" });
  expect(await watcher.post("/tasks/token-1/take", {})).toMatchObject({ status: 403 });
  const other = await callerWith({ claims: { org: "other" } });
  expect((await other.get("/tasks/token-1")).status).toBe(404);
  expect((await ownRestClient(fleet).get("/tasks/token-1")).status).toBe(404);
});

test("the holder of many tokens has the share of one client, and leaves room for others", async () => {
  const left = new AbortController();
  // A response that is garbage ends its stream.
  const streams: Response[] = [];
  const streamWith = async (jti: string): Promise<number> => {
    const token = await tokenOf({ claims: { login: "minter", role: "observer", jti } });
    const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
    const { signal } = left;
    const stream = await fetch(`${fleet.gatewayUrl()}/api/v1/events`, { headers, signal });
    streams.push(stream);
    return stream.status;
  };
  try {
    for (let n = 0; n < 32; n += 1) expect(await streamWith(`token-${n}`)).toBe(200);
    const fresh = await callerWith({ claims: { login: "minter", role: "observer", jti: "token-32" } });
    expect((await fresh.get("/caller")).status).toBe(429);
    const other = await callerWith({ claims: { login: "modest", role: "observer" } });
    expect((await other.get("/caller")).status).toBe(200);
    expect(streams).toHaveLength(32);
  } finally {
    left.abort();
  }
  const again = await callerWith({ claims: { login: "minter", role: "observer", jti: "token-33" } });
  await expect.poll(async () => (await again.get("/caller")).status, { timeout: 20_000 }).toBe(200);
});

test("a service account of Kubernetes is an agent in the tenant of its namespace", async () => {
  const claims = { "kubernetes.io": { namespace: "team-a", serviceaccount: { name: "coder-7" } } };
  const agent = await callerWith({ issuer: KUBERNETES, claims });
  expect((await agent.get("/caller")).body).toMatchObject({ tenant: "team-a", name: "coder-7" });
});

describe("a token is refused", () => {
  test.each<[string, () => Promise<string> | string]>([
    ["that has expired", () => tokenOf({ expires: Math.floor(Date.now() / 1_000) - 60 })],
    ["for another audience", () => tokenOf({ audience: "other" })],
    ["of another issuer", () => tokenOf({ issuer: "https://other.example" })],
    ["with the signature of a stranger", () => tokenOf({ forged: true })],
    ["with a role that its issuer may not give", () => tokenOf({ claims: { role: "operator" } })],
    ["with a wildcard as its name", () => tokenOf({ claims: { login: "*" } })],
    ["with the tenant of the services", () => tokenOf({ claims: { org: "=" } })],
    [
      "without a signature",
      () =>
        new UnsecuredJWT(CLAIMS).setIssuer(issuer.url).setAudience(AUDIENCE).setExpirationTime("5m").encode(),
    ],
    ["of another form", () => "a.b.c"],
  ])("%s", async (_, make) => {
    const token = await make();
    const { get } = restClient(fleet.gatewayUrl, token);
    expect(await get("/caller")).toMatchObject({
      status: 401,
      body: { code: "UNAUTHORIZED", detail: "the token was refused" },
    });
    expect(fleet.output()).not.toContain(token);
  });
});

test("a token is served until it expires", async () => {
  const brief = await callerWith({ expires: Math.floor(Date.now() / 1_000) + 6 });
  await expect.poll(async () => (await brief.get("/caller")).status).toBe(200);
  await expect.poll(async () => (await brief.get("/caller")).status).toBe(401);
});

describe("scopes", () => {
  test("a token opens only the operations of its scopes", async () => {
    const claims = { scope: "openid fleet.tasks:read fleet.createCheckpoint" };
    const caller = await callerWith({ issuer: "urn:scoped", claims });
    expect((await caller.get("/caller")).body.scopes).toEqual(["tasks:read", "createCheckpoint"]);
    expect((await caller.get("/tasks/none-1")).status).toBe(404);
    await expect
      .poll(async () => (await caller.post("/checkpoints", { ...body, task_id: "scoped-1" })).status)
      .toBe(201);
    expect(await caller.post("/tasks/scoped-1/take", {})).toMatchObject({
      status: 403,
      body: { code: "FORBIDDEN", details: { needed: ["tasks:write", "takeTask"] } },
    });
    const without = await callerWith({ issuer: "urn:scoped" });
    expect((await without.get("/tasks/none-1")).status).toBe(403);
    expect((await without.get("/caller")).body.scopes).toEqual([]);
  });

  test("an API key opens only the operations of its scopes", async () => {
    const reader = await newRestClient(fleet, { name: "ci", role: "observer", scopes: ["tasks:read"] });
    expect((await reader.get("/tasks")).status).toBe(200);
    expect((await reader.get("/alerts")).status).toBe(403);
    expect(await reader.post("/checkpoints", body)).toMatchObject({ status: 403 });
    expect((await reader.get("/caller")).body).toMatchObject({ name: "ci", scopes: ["tasks:read"] });
  });

  test("a record from before there were scopes opens, and one whose scopes were removed does not", async () => {
    const withoutScopes = (caller: RestClient): void => {
      const path = join(fleet.home, "gateway", "api-keys", `${caller.key.split("_")[1]}.json`);
      const { scopes: _, ...record } = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
      writeFileSync(path, JSON.stringify(record));
    };
    const old = await newRestClient(fleet, { name: "old" });
    withoutScopes(old);
    expect((await old.get("/caller")).body).toMatchObject({ name: "old", scopes: null });
    const narrow = await newRestClient(fleet, { name: "narrow", scopes: ["tasks:read"] });
    withoutScopes(narrow);
    expect((await narrow.get("/caller")).status).toBe(401);
  });
});
