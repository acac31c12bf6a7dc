import { createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { LastLines, sealedLines } from "../../../shared/mirror/audit-file.ts";
import { MirrorSeal } from "../../../shared/mirror/encryption/mirror-seal.ts";

const PLACE = { tenant: "default", task: "task-1" };
const OTHER = { tenant: "default", task: "task-2" };

class CountedSeal extends MirrorSeal {
  opened = 0;
  override open(...args: Parameters<MirrorSeal["open"]>): Buffer | null {
    this.opened += 1;
    return super.open(...args);
  }
}

test("the line that was sealed last for a trail is read without being opened, and no other one", () => {
  const seal = new CountedSeal({ id: randomBytes(8), secret: createSecretKey(randomBytes(32)) });
  const last = new LastLines();
  const lines = sealedLines(seal, PLACE, last);
  const first = lines.encode('{"seq":1}');
  const second = lines.encode('{"seq":2}');
  expect(lines.decode(second)).toBe('{"seq":2}');
  expect(seal.opened).toBe(0);

  expect(lines.decode(first)).toBe('{"seq":1}');
  expect(seal.opened).toBe(1);
  for (const changed of [`A${second.slice(1)}`, second.slice(0, -4), ""])
    expect(lines.decode(changed)).toBe(null);
  expect(sealedLines(seal, OTHER, last).decode(second)).toBe(null);
});

test("lines of more trails than are kept are opened again", () => {
  const seal = new CountedSeal({ id: randomBytes(8), secret: createSecretKey(randomBytes(32)) });
  const last = new LastLines();
  const places = Array.from({ length: 2_001 }, (_, i) => ({ tenant: "default", task: `task-${i}` }));
  const written = places.map((place) =>
    sealedLines(seal, place, last).encode(`{"seq":1,"of":"${place.task}"}`),
  );
  for (const [i, place] of places.entries())
    expect(sealedLines(seal, place, last).decode(written[i]!)).toBe(`{"seq":1,"of":"${place.task}"}`);
  expect(seal.opened).toBe(2_000);
});
