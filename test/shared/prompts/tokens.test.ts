import { expect, test } from "vitest";
import { tokenizer } from "../../../shared/prompts/tokens.ts";

// In a file of its own, because a tokenizer that was loaded once stays.
test("where the real one cannot be loaded, four characters are a token, and it says so", () => {
  const fallback = tokenizer("o200k_base", () => {
    throw new Error("Cannot find module");
  });
  expect({ name: fallback.name, tokens: fallback.count("12345678") }).toEqual({
    name: "four_characters",
    tokens: 2,
  });
});
