/**
 * The socket of the helper. A hook process sends the name of its event and gets the answer for its agent. The folder is this user's
 * alone, so no other user can send anything.
 */
import { chmodSync, rmSync, statSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createDeferred } from "../../shared/runtime/deferred.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";

const NAME_CHARS_MAX = 64;

/** Resolves with the text to print; an empty one for none. Never rejects. */
export type AnswerHook = (name: string) => Promise<string>;

export interface HookListener {
  /** False after another helper took the place, for example because a user removed the folder. */
  isOwn(): boolean;
  readonly stop: Stop;
}

/** null: another helper serves this folder. */
export async function listen(folder: string, answer: AnswerHook): Promise<HookListener | null> {
  const path = join(folder, "helper.sock");
  const server = createServer({ allowHalfOpen: true }, (socket) => serve(socket, answer));
  if (!(await bound(server, path))) return null;
  chmodSync(path, 0o600);
  const { ino } = statSync(path);
  return {
    isOwn: () => statSync(path, { throwIfNoEntry: false })?.ino === ino,
    stop: async () => {
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function bound(server: Server, path: string): Promise<boolean> {
  if (await listens(server, path)) return true;
  if (await isServed(path)) return false;
  // A helper that was killed leaves its socket.
  rmSync(path, { force: true });
  return listens(server, path);
}

async function listens(server: Server, path: string): Promise<boolean> {
  const result = createDeferred<boolean>();
  server.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE") result.resolve(false);
    else result.reject(error);
  });
  server.listen(path, () => result.resolve(true));
  return result.promise;
}

async function isServed(path: string): Promise<boolean> {
  const result = createDeferred<boolean>();
  const probe = createConnection(path);
  probe.on("connect", () => result.resolve(true));
  probe.on("error", () => result.resolve(false));
  return result.promise.finally(() => probe.destroy());
}

function serve(socket: Socket, answer: AnswerHook): void {
  let text = "";
  let isAnswered = false;
  socket.setEncoding("utf8");
  // The hook process may be gone before the answer.
  socket.on("error", () => {});
  socket.on("data", (part: string) => {
    text += part;
    const end = text.indexOf("\n");
    if (end < 0 && text.length <= NAME_CHARS_MAX) return;
    if (isAnswered) return;
    isAnswered = true;
    void answer(text.slice(0, Math.max(0, end))).then((out) => socket.end(out));
  });
}
