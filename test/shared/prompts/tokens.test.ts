import { expect, test } from "vitest";
import { tokenizer } from "../../../shared/prompts/tokens.ts";

// In a file of its own, because a loaded tokenizer stays loaded.
test("without the real tokenizer, four characters count as a token, under the name of that rule", () => {
  const fallback = tokenizer("o200k_base", () => {
    throw new Error("Cannot find module");
  });
  expect({ name: fallback.name, tokens: fallback.count("12345678") }).toEqual({
    name: "four_characters",
    tokens: 2,
  });
});
