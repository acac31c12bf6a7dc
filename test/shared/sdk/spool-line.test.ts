// The spool's lines: whatever is written is read back, and whatever a kill or a disk does to one line, the others stay.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QUEUED_OPS } from "../../../shared/protocol/subjects.ts";
import {
  asideLine,
  commandLine,
  type Line,
  linesOf,
  markLine,
  type SpooledCommand,
} from "../../../shared/sdk/spool/line.ts";

const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
const id = fc
  .uuid({ version: 7 })
  .filter((value) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/.test(value));
const command: fc.Arbitrary<SpooledCommand> = fc.record(
  {
    tenant: name,
    agentId: name,
    taskId: name,
    op: fc.constantFrom(...QUEUED_OPS),
    commandId: id,
    at: fc.nat(),
    sent: fc.boolean(),
    traceparent: fc.constant("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    body: fc
      .dictionary(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }))
      .map((value) => Buffer.from(JSON.stringify(value))),
  },
  { requiredKeys: ["tenant", "agentId", "taskId", "op", "commandId", "at", "sent", "body"] },
);

const commandsOf = (lines: Iterable<Line>) =>
  [...lines].flatMap((line) => (line.kind === "command" ? [line.command] : []));
const plain = (one: SpooledCommand) => ({ ...one, body: Buffer.from(one.body).toString() });

describe("lines", () => {
  test("are read back as they were written, with the places between them", () => {
    fc.assert(
      fc.property(fc.array(command), (commands) => {
        const all = commands.map(commandLine);
        const lines = [...linesOf(Buffer.concat(all))];
        expect(commandsOf(lines).map(plain)).toEqual(commands.map(plain));
        let end = 0;
        for (const [i, line] of lines.entries()) {
          expect(line.start).toBe(end);
          end += all[i]!.length;
          expect(line.end).toBe(end);
        }
      }),
    );
  });

  test("marks and what was set aside too", () => {
    const mark = { acked: 1, sending: 2, at: 3 };
    const aside = { reason: "damaged", at: 4, line: 'a\tb\nc"' } as const;
    expect([...linesOf(Buffer.concat([markLine(mark), asideLine(aside)]))]).toMatchObject([
      { kind: "mark", mark },
      { kind: "aside", aside },
    ]);
  });

  test("a write that was cut short spoils itself alone, wherever it was cut and whatever follows", () => {
    fc.assert(
      fc.property(fc.array(command), command, fc.array(command), fc.nat(), (before, torn, after, cut) => {
        const whole = commandLine(torn);
        const file = Buffer.concat([
          ...before.map(commandLine),
          whole.subarray(0, cut % whole.length),
          ...after.map(commandLine),
        ]);
        expect(commandsOf(linesOf(file)).map(plain)).toEqual([...before, ...after].map(plain));
      }),
    );
  });

  test("one byte changed spoils at most two lines, and is seen", () => {
    fc.assert(
      fc.property(
        fc.array(command, { minLength: 1, maxLength: 5 }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (commands, at, flip) => {
          const file = Buffer.concat(commands.map(commandLine));
          const place = at % file.length;
          file.writeUInt8(file.readUInt8(place) ^ flip, place);
          const lines = [...linesOf(file)];
          const intact = commands.map(plain);
          for (const found of commandsOf(lines).map(plain)) expect(intact).toContainEqual(found);
          expect(commandsOf(lines).length).toBeGreaterThanOrEqual(commands.length - 2);
          if (commandsOf(lines).length < commands.length)
            expect(lines.some((line) => line.kind === "damaged")).toBe(true);
        },
      ),
    );
  });

  test("any bytes at all are no reason to throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(commandsOf(linesOf(bytes))).toEqual([]);
      }),
    );
  });

  test("a body of several lines is a fault of ours", () => {
    const sample = fc.sample(command, 1)[0]!;
    expect(() => commandLine({ ...sample, body: Buffer.from("{\n}") })).toThrow(TypeError);
  });
});
