// The lines of a spool file: a line is read back as it was written, and a damaged line leaves the others intact.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QUEUED_OPS } from "../../../shared/protocol/operations.ts";
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
  test("are read back as they were written, with their offsets", () => {
    fc.assert(
      fc.property(fc.array(command), (commands) => {
        const all = commands.map((one) => commandLine(one));
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

  test("of marks and of lines that were set aside are read back", () => {
    const mark = { acked: 1, sending: 2, at: 3 };
    const aside = { reason: "damaged", at: 4, line: 'a\tb\nc"' } as const;
    expect([...linesOf(Buffer.concat([markLine(mark), asideLine(aside)]))]).toMatchObject([
      { kind: "mark", mark },
      { kind: "aside", aside },
    ]);
  });

  test("a truncated write damages only itself", () => {
    fc.assert(
      fc.property(fc.array(command), command, fc.array(command), fc.nat(), (before, torn, after, cut) => {
        const whole = commandLine(torn);
        const file = Buffer.concat([
          ...before.map((one) => commandLine(one)),
          whole.subarray(0, cut % whole.length),
          ...after.map((one) => commandLine(one)),
        ]);
        expect(commandsOf(linesOf(file)).map(plain)).toEqual([...before, ...after].map(plain));
      }),
    );
  });

  test("a write of which a power cut keeps only later sectors damages only itself", () => {
    fc.assert(
      fc.property(fc.array(command), command, fc.array(command), fc.nat(), (before, torn, after, cut) => {
        const whole = commandLine(torn);
        // At least the line break and one byte of the line.
        const lost = 2 + (cut % (whole.length - 1));
        const file = Buffer.concat([
          ...before.map((one) => commandLine(one)),
          Buffer.alloc(lost),
          whole.subarray(lost),
          ...after.map((one) => commandLine(one)),
        ]);
        expect(commandsOf(linesOf(file)).map(plain)).toEqual([...before, ...after].map(plain));
      }),
    );
  });

  test("a changed byte is detected and damages at most two lines", () => {
    fc.assert(
      fc.property(
        fc.array(command, { minLength: 1, maxLength: 5 }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (commands, at, flip) => {
          const file = Buffer.concat(commands.map((one) => commandLine(one)));
          const offset = at % file.length;
          file.writeUInt8(file.readUInt8(offset) ^ flip, offset);
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

  test("any bytes can be read without an error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(commandsOf(linesOf(bytes))).toEqual([]);
      }),
    );
  });

  test("a body of several lines is refused", () => {
    const sample = fc.sample(command, 1)[0]!;
    for (const body of ["{\n}", "{\t}", "{\0}"])
      expect(() => commandLine({ ...sample, body: Buffer.from(body) })).toThrow(TypeError);
  });
});
