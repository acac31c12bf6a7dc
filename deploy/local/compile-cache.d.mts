export function enableCompileCache(): void;
