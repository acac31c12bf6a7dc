/**
 * The socket of the helper. A hook process of Node sends the name of its event and gets the answer for its agent; one of the shell reads
 * the number of this process, and looks whether it runs. The folder is this user's alone, so no other user can send anything.
 */
import { once } from "node:events";
import { chmodSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createDeferred } from "../../shared/runtime/deferred.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { writeWhole } from "../../shared/runtime/process/whole-file.ts";

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
  if (await isServed(path)) return null;
  const server = createServer({ allowHalfOpen: true }, (socket) => serve(socket, answer));
  // Moved into its place: a killed helper leaves its socket there, and a server that closes removes the path at which it began to listen,
  // which must not be the socket of a helper that was started at the same time.
  const own = join(folder, `${process.pid}.sock`);
  rmSync(own, { force: true });
  await listening(server, own);
  chmodSync(own, 0o600);
  const { ino } = statSync(own);
  renameSync(own, path);
  const isOwn = () => statSync(path, { throwIfNoEntry: false })?.ino === ino;
  const number = join(folder, "helper.pid");
  keepNumber(number);
  return {
    isOwn: () => {
      const own = isOwn();
      // Helpers that are started at the same time write the file in any order.
      if (own) keepNumber(number);
      return own;
    },
    stop: async () => {
      if (isOwn()) for (const file of [number, path]) rmSync(file, { force: true });
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function keepNumber(path: string): void {
  const text = `${process.pid}\n`;
  if (statSync(path, { throwIfNoEntry: false }) !== undefined && readFileSync(path, "utf8") === text) return;
  writeWhole(path, text);
}

async function listening(server: Server, path: string): Promise<void> {
  server.listen(path);
  await once(server, "listening");
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
  // A hook process that is killed before it has sent the name would leave its socket open for ever.
  socket.on("end", () => {
    if (!isAnswered) socket.end();
  });
  socket.on("data", (part: string) => {
    text += part;
    const end = text.indexOf("\n");
    if (end < 0 && text.length <= NAME_CHARS_MAX) return;
    if (isAnswered) return;
    isAnswered = true;
    void answer(text.slice(0, Math.max(0, end))).then((out) => socket.end(out));
  });
}
