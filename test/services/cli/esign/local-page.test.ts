/** The page for a person on this machine, which no person answers. */
import { afterEach, expect, test, vi } from "vitest";
import { LocalPage } from "../../../../services/cli/commands/esign/local-page.ts";
import { callFailureOf } from "../../../../services/cli/runtime/failure.ts";

afterEach(() => vi.useRealTimers());

test("a person who does not answer ends the wait, and the hint says that the fleet is not the cause", async () => {
  const page = await LocalPage.open();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const failed = page.next(["code"]).catch((error: unknown) => error);
  vi.advanceTimersByTime(10 * 60_000);
  vi.useRealTimers();
  const failure = callFailureOf(await failed, { url: "nats://h:1" });
  await page.close();
  expect(failure.body.message).toBe("the person did not answer on the page in time");
  expect(failure.hint).toContain("Nothing was signed.");
  expect(failure.hint).not.toContain("nats://h:1");
});
