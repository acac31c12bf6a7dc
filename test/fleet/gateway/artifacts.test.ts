/** Artifacts over HTTP: one request or parts, ranges, limits, scopes, other tenants, and damage behind the answer. */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, type RestClient } from "../../harness/rest-client.ts";
import { MIB, partsOfSize } from "../artifacts/bytes.ts";

const CALLS_MS = 120_000;
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

let fleet: TestFleet;
let agent: RestClient;
beforeAll(async () => {
  fleet = await startFleet();
  agent = await newRestClient(fleet, { name: "coder-1" });
});
afterAll(() => fleet?.stop());

const upload = (bytes: Uint8Array, { by = agent, as = sha256(bytes) } = {}) =>
  by.send("PUT", `/artifacts/${as}`, { body: Buffer.from(bytes) });

async function download(
  hash: string,
  headers: Record<string, string> = {},
  { key } = agent,
): Promise<{ status: number; headers: Headers; bytes: Buffer }> {
  const answer = await fetch(`${fleet.gatewayUrl()}/api/v1/artifacts/${hash}/content`, {
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  return {
    status: answer.status,
    headers: answer.headers,
    bytes: Buffer.from(await answer.arrayBuffer()),
  };
}

describe("artifacts over HTTP", { timeout: CALLS_MS }, () => {
  test("uploadArtifact stores the body, downloadArtifact returns it, and a checkpoint lists it", async () => {
    const bytes = randomBytes(2 * MIB + 777);
    const hash = sha256(bytes);
    const made = await upload(bytes);
    expect(made).toMatchObject({
      status: 201,
      body: { sha256: hash, size: bytes.length, stored_by: "coder-1" },
    });
    expect(made.headers.get("location")).toBe(`/api/v1/artifacts/${hash}`);
    expect(await upload(bytes)).toMatchObject({ status: 200, body: { sha256: hash } });
    const whole = await download(hash);
    expect(whole.status).toBe(200);
    expect(whole.bytes.equals(bytes)).toBe(true);
    expect(whole.headers.get("etag")).toBe(`"${hash}"`);
    expect(whole.headers.get("content-type")).toBe("application/octet-stream");
    expect(whole.headers.get("content-disposition")).toBe("attachment");
    expect(await download(hash, { "if-none-match": `"${hash}"` })).toMatchObject({ status: 304 });

    const reference = { name: "a.bin", media_type: "application/x-a", sha256: hash, size: bytes.length };
    const written = await agent.post("/checkpoints", {
      task_id: "with-artifact",
      agent_type: "implementation",
      execution_state: { phase: "implementing" },
      artifacts: [reference],
    });
    expect(written.status).toBe(201);
    const id = String(written.body.checkpoint_id);
    expect((await agent.get(`/checkpoints/${id}/artifacts`)).body).toEqual({ artifacts: [reference] });
    const found = await agent.get(`/artifacts/${hash}`);
    expect(found.body).toMatchObject({ references: [{ task_id: "with-artifact", checkpoint_id: id }] });
    expect((await agent.get("/artifacts?limit=1")).body).toMatchObject({ artifacts: [{ sha256: hash }] });
  });

  test("a request for the head has the length of the bytes, and holds no request open", async () => {
    const bytes = randomBytes(5_000);
    const hash = sha256(bytes);
    await upload(bytes);
    // More than a caller may have open.
    for (let round = 0; round < 9; round += 1) {
      const heads = await Promise.all(
        Array.from({ length: 30 }, () => agent.send("HEAD", `/artifacts/${hash}/content`)),
      );
      for (const { status, headers } of heads) {
        expect(status).toBe(200);
        expect(headers.get("content-length")).toBe("5000");
      }
    }
    expect((await download(hash)).bytes.equals(bytes)).toBe(true);
  });

  test("a range has exactly its bytes; an impossible one is 416; the condition of another version is ignored", async () => {
    const bytes = randomBytes(2 * MIB + 10);
    const hash = sha256(bytes);
    await upload(bytes);
    const ranges: [string, number, number][] = [
      ["bytes=0-0", 0, 1],
      ["bytes=1048570-1048580", 1_048_570, 1_048_581],
      ["bytes=2097152-", 2 * MIB, bytes.length],
      ["bytes=-3", bytes.length - 3, bytes.length],
      ["bytes=5-99999999", 5, bytes.length],
    ];
    for (const [range, begin, end] of ranges) {
      const part = await download(hash, { range });
      expect(part.status, range).toBe(206);
      expect(part.bytes.equals(bytes.subarray(begin, end)), range).toBe(true);
      expect(part.headers.get("content-range")).toBe(`bytes ${begin}-${end - 1}/${bytes.length}`);
    }
    expect((await download(hash, { range: "bytes=99999999-" })).status).toBe(416);
    expect((await download(hash, { range: "bytes=0-0", "if-range": '"other"' })).status).toBe(200);
    expect((await download(hash, { range: "bytes=0-0", "if-range": `"${hash}"` })).status).toBe(206);
    expect((await download(hash, { range: "lines=1-2" })).status).toBe(200);
  });

  test("an upload in parts, and an empty artifact", async () => {
    const bytes = randomBytes(MIB + 5);
    const hash = sha256(bytes);
    const upload_id = uuidv7();
    const begun = await agent.post("/artifacts/uploads", { upload_id, sha256: hash, size: bytes.length });
    expect(begun).toMatchObject({ status: 200, body: { stored: false, part_bytes: MIB } });
    for (const part of [1, 0]) {
      const base64 = bytes.subarray(part * MIB, (part + 1) * MIB).toString("base64");
      const path = `/artifacts/uploads/${upload_id}/parts/${part}`;
      expect(await agent.post(path, { bytes: base64 })).toMatchObject({ status: 200 });
    }
    const commit = () => agent.post(`/artifacts/uploads/${upload_id}/commit`, { sha256: hash });
    await expect.poll(async () => (await commit()).body.state).toBe("stored");
    expect((await download(hash)).bytes.equals(bytes)).toBe(true);
    expect((await upload(Buffer.alloc(0))).status).toBe(201);
    expect(await download(sha256(Buffer.alloc(0)))).toMatchObject({ status: 200, bytes: Buffer.alloc(0) });
  });

  test("bytes of another hash, a body that ends early, no length and too many bytes store nothing", async () => {
    const bytes = randomBytes(1_000);
    const other = "1".repeat(64);
    expect(await upload(bytes, { as: other })).toMatchObject({ status: 400, body: { code: "INVALID" } });
    expect((await agent.get(`/artifacts/${other}`)).status).toBe(404);
    expect((await download(other)).status).toBe(404);
    expect((await upload(bytes, { as: "x" })).status).toBe(400);
    const send = (headers: Record<string, string>, then: (sent: ClientRequest) => void) =>
      new Promise<number | string>((resolve) => {
        const sent = request(
          `${fleet.gatewayUrl()}/api/v1/artifacts/${sha256(bytes)}`,
          { method: "PUT", headers: { authorization: `Bearer ${agent.key}`, ...headers } },
          (answer) => resolve(answer.statusCode ?? 0),
        );
        sent.on("error", () => resolve("closed"));
        sent.write(bytes, () => then(sent));
      });
    expect(await send({ "transfer-encoding": "chunked" }, (sent) => sent.end())).toBe(400);
    expect(await send({ "content-length": "2000" }, (sent) => sent.destroy())).toBe("closed");
    const tooLarge = String(LIMITS.artifact_request_bytes_max + 1);
    expect(await send({ "content-length": tooLarge }, () => {})).toBe(413);
    expect((await agent.get(`/artifacts/${sha256(bytes)}`)).status).toBe(404);
  });

  test("another tenant, a reader and a key without the scope get nothing", async () => {
    const bytes = randomBytes(500);
    const hash = sha256(bytes);
    await upload(bytes);
    const foreign = await newRestClient(fleet, { name: "coder-1", tenant: "quokka" });
    expect((await download(hash, {}, foreign)).status).toBe(404);
    expect((await foreign.get(`/artifacts/${hash}`)).status).toBe(404);
    const observer = await newRestClient(fleet, { name: "watcher", role: "observer" });
    expect((await download(hash, {}, observer)).status).toBe(200);
    expect((await upload(randomBytes(5), { by: observer })).status).toBe(403);
    const scoped = await newRestClient(fleet, { name: "reader-1", scopes: ["artifacts:read"] });
    expect((await download(hash, {}, scoped)).status).toBe(200);
    expect((await upload(bytes, { by: scoped })).status).toBe(403);
    const tasks = await newRestClient(fleet, { name: "reader-2", scopes: ["tasks:read"] });
    expect((await download(hash, {}, tasks)).status).toBe(403);
  });

  test("a damaged artifact never arrives whole: a short one is an error, a long one ends early", async () => {
    const damage = async (size: number, index: number): Promise<{ hash: string; shorten: () => void }> => {
      const bytes = randomBytes(size);
      await upload(bytes);
      const path = partsOfSize(fleet.home, size)[index]!;
      const part = readFileSync(path);
      part[3]! ^= 1;
      writeFileSync(path, part);
      return { hash: sha256(bytes), shorten: () => writeFileSync(path, part.subarray(1)) };
    };
    const short = await damage(MIB + 4_321, 1);
    const answer = await agent.get(`/artifacts/${short.hash}/content`);
    expect(answer).toMatchObject({ status: 500, body: { code: "CORRUPT" } });
    short.shorten();
    expect((await agent.get(`/artifacts/${short.hash}/content`)).status).toBe(500);
    const long = await damage(2 * MIB + 4_322, 2);
    await expect(download(long.hash)).rejects.toThrow();
    long.shorten();
    await expect(download(long.hash)).rejects.toThrow();
  });
});
