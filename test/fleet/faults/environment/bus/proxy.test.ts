/** The proxy passes bytes unchanged and in order in every mode, holds one direction while the other works, and cuts connections. */
import { once } from "node:events";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { seededRandom } from "../../../../load/workload.ts";
import { type NetworkProxy, startProxy } from "./proxy.ts";

let server: Server;
let proxy: NetworkProxy;
let peers: Socket[];

beforeEach(async () => {
  peers = [];
  server = createServer((socket) => {
    peers.push(socket.on("error", () => {}));
    socket.pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy = await startProxy({
    targetPort: (server.address() as { port: number }).port,
    random: seededRandom(1),
  });
});

afterEach(async () => {
  await proxy.close();
  for (const peer of peers) peer.destroy();
  server.close();
});

async function open(): Promise<Socket> {
  const socket = createConnection({ port: proxy.port, host: "127.0.0.1" });
  await once(socket, "connect");
  return socket;
}

async function echoed(socket: Socket, length: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let got = 0;
  for await (const part of socket.iterator({ destroyOnReturn: false })) {
    parts.push(part as Buffer);
    got += (part as Buffer).length;
    if (got >= length) break;
  }
  return Buffer.concat(parts);
}

const bytes = Buffer.from(Array.from({ length: 5_000 }, (_, i) => i % 251));

test.each([
  { kind: "clear" },
  { kind: "delaying", ms: 5, jitterMs: 20 },
  { kind: "trickling", bytes: 400, everyMs: 1 },
] as const)("bytes return unchanged: $kind", async (mode) => {
  proxy.set(mode);
  const socket = await open();
  socket.write(bytes);
  expect(await echoed(socket, bytes.length)).toEqual(bytes);
  socket.destroy();
});

test("held bytes arrive when the mode is clear again", async () => {
  const socket = await open();
  socket.write("x");
  await echoed(socket, 1);
  proxy.set({ kind: "holding", direction: "up" });
  let got = 0;
  socket.on("data", (part) => {
    got += part.length;
  });
  socket.write(bytes);
  peers[0]?.write("hello"); // the other direction works
  while (got < 5) await once(socket, "data");
  expect(got).toBe(5);
  proxy.set({ kind: "clear" });
  while (got < 5 + bytes.length) await once(socket, "data");
  socket.destroy();
});

test("a cut resets both sides, and a refused connection is reset at once", async () => {
  const socket = await open();
  socket.write("x");
  await echoed(socket, 1);
  expect(proxy.connections).toBe(1);
  proxy.cut();
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  expect(error.code).toBe("ECONNRESET");
  expect(proxy.connections).toBe(0);
  proxy.set({ kind: "refusing" });
  const refused = createConnection({ port: proxy.port, host: "127.0.0.1" });
  await once(refused, "error");
  proxy.set({ kind: "clear" });
  const again = await open();
  again.write("y");
  expect((await echoed(again, 1)).toString()).toBe("y");
  again.destroy();
});
