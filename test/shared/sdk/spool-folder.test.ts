// The folder of a spool: an appended line is kept although other processes close files, and an error states its cause.

import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { BusError } from "../../../shared/bus/bus.ts";
import { SpoolFolder } from "../../../shared/sdk/spool/folder.ts";
import { commandLine, linesOf, type SpooledCommand } from "../../../shared/sdk/spool/line.ts";
import { SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { SpoolSender } from "../../../shared/sdk/spool/spool-sender.ts";
import { manualClock } from "../../harness/clock.ts";
import { spooled } from "./spool-command.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-spool-"));
let path: string;
let count = 0;
beforeEach(() => {
  count += 1;
  path = join(root, String(count), "default.agent");
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const MIB = 1024 * 1024;
const folderOf = (bytesMax = MIB) => new SpoolFolder(path, bytesMax);
const append = (folder: SpoolFolder, command: SpooledCommand) => folder.append(commandLine(command));

async function idsIn(folder: SpoolFolder): Promise<string[]> {
  const ids: string[] = [];
  for await (const lines of folder.lines())
    for (const line of lines) if (line.kind === "command") ids.push(line.command.commandId);
  return ids;
}

interface Sent {
  readonly ids: string[];
  readonly removed: string[];
  readonly aside: string[];
  readonly sender: SpoolSender;
}

/** As a newer version of Fleet would write it, with a right checksum. */
function ofNewerFormat(line: Buffer): Buffer {
  const content = Buffer.from(line.subarray(1, -9).toString().replace('"v":1', '"v":3'));
  return Buffer.from(`\n${content}\t${crc32(content).toString(16).padStart(8, "0")}`);
}

function sending(
  folder: SpoolFolder,
  fail: (command: SpooledCommand) => Error | "too_large" | "forbidden" | undefined = () => undefined,
  clock = manualClock(),
): Sent {
  const [ids, removed, aside]: string[][] = [[], [], []];
  const sender = new SpoolSender({
    folder,
    clock,
    seal: new SpoolSeal(undefined),
    send: async (command) => {
      const failure = fail(command);
      if (failure instanceof Error) throw failure;
      if (failure === undefined) ids!.push(command.commandId);
      return failure;
    },
    onRemoved: ({ commandId }) => removed!.push(commandId),
    onAside: ({ reason }) => aside!.push(reason),
  });
  return { ids: ids!, removed: removed!, aside: aside!, sender };
}

const never = new AbortController().signal;

describe("appending", () => {
  test("a line that follows another one after any number of steps is stored", async () => {
    const folder = folderOf();
    const commands = Array.from({ length: 30 }, (_, n) => spooled(`t-${n}`));
    for (const [steps, command] of commands.entries()) {
      await append(folder, command);
      for (let step = 0; step < steps; step += 1) await Promise.resolve();
    }
    await folder.end();
    expect(await idsIn(folder)).toEqual(commands.map(({ commandId }) => commandId));
  });

  test("keeps the order, in files that only the owner may read", async () => {
    const folder = folderOf();
    const commands = Array.from({ length: 20 }, (_, n) => spooled(`t${n}`));
    await Promise.all(commands.map((command) => append(folder, command)));
    expect(await idsIn(folderOf())).toEqual(commands.map(({ commandId }) => commandId));
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(statSync(join(path, "open")).mode & 0o777).toBe(0o600);
    await folder.end();
  });

  test("loses no line and keeps the order while another process sends continuously", async () => {
    const folder = folderOf();
    const { ids, sender } = sending(folderOf());
    const commands = Array.from({ length: 200 }, () => spooled("t"));
    let done = false;
    const taking = (async () => {
      while (!done) await sender.run(never);
      await sender.run(never);
    })();
    for (const command of commands) await append(folder, command);
    done = true;
    await taking;
    // A command may be sent twice, but the first sends keep the order.
    expect([...new Set(ids)]).toEqual(commands.map(({ commandId }) => commandId));
    expect(await folder.isEmpty()).toBe(true);
    await folder.end();
  });

  test("survives the removal of the folder", async () => {
    const folder = folderOf();
    await append(folder, spooled("t"));
    rmSync(path, { recursive: true });
    const after = spooled("t");
    await append(folder, after);
    expect(await idsIn(folder)).toEqual([after.commandId]);
    await folder.end();
  });

  test("a full disk refuses a line, writes nothing of it, and lets the earlier ones be sent", async ({
    skip,
  }) => {
    const disk = mkdtempSync(join(tmpdir(), "fleet-spool-disk-"));
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], { stdio: "ignore" });
    } catch {
      rmSync(disk, { recursive: true });
      return skip("a small file system cannot be mounted here");
    }
    onTestFinished(() => {
      execFileSync("umount", ["-l", disk]);
      rmSync(disk, { recursive: true, force: true });
    });
    const folder = new SpoolFolder(join(disk, "default.agent"), 64 * MIB);
    const [kept, refused] = [spooled("t"), spooled("t")];
    await append(folder, kept);
    const size = statSync(join(folder.path, "open")).size;
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(join(disk, "ballast"), Buffer.alloc(bavail * bsize - MIB / 2));
    await expect(append(folder, refused)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "the disk of the spool is full and no bus takes commands",
      details: { spool: folder.path, reason: "ENOSPC", free_bytes: MIB / 2 },
    });
    expect(statSync(join(folder.path, "open")).size).toBe(size);
    const sent = sending(folder);
    expect(await sent.sender.run(new AbortController().signal)).toBe(true);
    expect(sent).toMatchObject({ ids: [kept.commandId], aside: [] });
    rmSync(join(disk, "ballast"));
    await append(folder, refused);
    expect(await idsIn(folder)).toEqual([refused.commandId]);
    await folder.end();
  });

  test("a full spool refuses a line, with the cause, and keeps its own", async () => {
    const first = spooled("t");
    const folder = folderOf(commandLine(first).length + 10);
    await append(folder, first);
    await expect(append(folder, spooled("t"))).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "the spool is full and no bus takes commands",
      details: { spool: path },
    });
    expect(await idsIn(folder)).toEqual([first.commandId]);
    await folder.end();
  });

  test("a folder that cannot be created is an error with its cause", async () => {
    writeFileSync(join(root, "file"), "");
    const folder = new SpoolFolder(join(root, "file", "spool"), MIB);
    await expect(append(folder, spooled("t"))).rejects.toMatchObject({
      code: "UNAVAILABLE",
      details: { reason: "ENOTDIR" },
    });
    await folder.end();
  });
});

describe("sending", () => {
  test("sends each file in order and removes it", async () => {
    const folder = folderOf();
    const commands = Array.from({ length: 200 }, () => spooled("t"));
    for (const [n, command] of commands.entries()) {
      await append(folder, command);
      if (n % 50 === 10) await folder.close();
    }
    const { ids, removed, sender } = sending(folder);
    expect(await sender.run(never)).toBe(true);
    expect(ids).toEqual(commands.map(({ commandId }) => commandId));
    expect(removed).toEqual(ids);
    expect(readdirSync(path)).toEqual([]);
    await folder.end();
  });

  test("continues after a failure, and after a crash repeats only the commands that may have been sent", async () => {
    const folder = folderOf();
    const commands = Array.from({ length: 150 }, () => spooled("t"));
    await Promise.all(commands.map((command) => append(folder, command)));
    let left = 100;
    const first = sending(folder, () => (left-- > 0 ? undefined : new BusError("timeout")));
    await expect(first.sender.run(never)).rejects.toThrow("no answer in time");
    expect(first.ids).toHaveLength(100);
    left = 10;
    await expect(first.sender.run(never)).rejects.toThrow("no answer in time");
    expect(first.ids).toEqual(commands.slice(0, 110).map(({ commandId }) => commandId));
    // Another process has only the marks.
    const second = sending(folderOf());
    expect(await second.sender.run(never)).toBe(true);
    expect(second.ids).toEqual(commands.slice(100).map(({ commandId }) => commandId));
    await folder.end();
  });

  test("a task does not wait for another one, and the order within a task stays", async () => {
    const folder = folderOf();
    const commands = Array.from({ length: 60 }, (_, n) => spooled(`t${n % 3}`));
    for (const command of commands) await append(folder, command);
    const stuck = sending(folder, ({ taskId }) =>
      taskId === "t1" ? new BusError("unavailable") : undefined,
    );
    await expect(stuck.sender.run(never)).rejects.toThrow();
    expect(stuck.ids).toHaveLength(40);
    const rest = sending(folder);
    await rest.sender.run(never);
    const of = (ids: string[]) =>
      ids.filter((one) => commands.some((c) => c.commandId === one && c.taskId === "t1"));
    expect(of(rest.ids)).toEqual(
      commands.filter(({ taskId }) => taskId === "t1").map(({ commandId }) => commandId),
    );
    await folder.end();
  });

  test("damaged and refused lines are set aside once and do not delay others", async () => {
    const folder = folderOf();
    const [first, large, last] = [spooled("t"), spooled("t"), spooled("t")];
    await append(folder, first);
    appendFileSync(join(path, "open"), commandLine(spooled("t")).subarray(0, 60));
    appendFileSync(join(path, "open"), ofNewerFormat(commandLine(spooled("t"))));
    await append(folder, large);
    await append(folder, last);
    const { ids, aside, sender } = sending(folder, ({ commandId }) =>
      commandId === large.commandId ? "too_large" : undefined,
    );
    await sender.run(never);
    expect(ids).toEqual([first.commandId, last.commandId]);
    expect(aside).toEqual(["too_large", "damaged", "newer"]);
    const kept = await folder.aside();
    expect(kept.map(({ reason }) => reason)).toEqual(["too_large", "damaged", "newer"]);
    expect([...linesOf(Buffer.from(kept[2]!.line))]).toMatchObject([{ kind: "newer" }]);
    expect([...linesOf(Buffer.from(kept[0]!.line))]).toMatchObject([
      { kind: "command", command: { commandId: large.commandId } },
    ]);
    await folder.end();
  });
});

describe("a command that may have been sent over a day ago", () => {
  const DAY_MS = 25 * 3_600_000;

  test("is not sent again, because the fleet may have forgotten its id", async () => {
    const folder = folderOf();
    const clock = manualClock();
    const maybe = spooled("t", { at: clock.now(), sent: true });
    const unsent = spooled("t", { at: clock.now() });
    await append(folder, maybe);
    await append(folder, unsent);
    await clock.advance(DAY_MS);
    const { ids, aside, sender } = sending(folder, undefined, clock);
    await sender.run(never);
    expect(ids).toEqual([unsent.commandId]);
    expect(aside).toEqual(["doubtful"]);
    await folder.end();
  });

  test.each([
    ["timeout", ["doubtful"]],
    ["no_responders", []],
  ] as const)("is set aside only if it may have been sent: after %s", async (kind, expected) => {
    const folder = folderOf();
    const clock = manualClock();
    const command = spooled("t", { at: clock.now() });
    await append(folder, command);
    const failed = sending(folder, () => new BusError(kind), clock);
    await expect(failed.sender.run(never)).rejects.toThrow();
    await clock.advance(DAY_MS);
    const { ids, aside, sender } = sending(folder, undefined, clock);
    await sender.run(never);
    expect(aside).toEqual(expected);
    expect(ids).toEqual(expected.length === 0 ? [command.commandId] : []);
    await folder.end();
  });
});
