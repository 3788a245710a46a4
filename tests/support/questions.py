"""Prompts for drills with the embedded model: many lengths, many subjects."""

SUBJECTS = [
    "horses", "the moon", "bread", "a lighthouse", "the number seven", "winter", "a long river",
    "the colour blue", "old clocks", "a small town", "music", "the first computer", "tea", "maps",
    "a lost key", "the sea",
]  # fmt: skip
FORMS = [
    "Write two sentences about {}.",
    "Explain {} to a child.",
    "What would a poet say of {}? Give a short poem.",
    "List three facts about {} and say which one you like best, and why.",
]
QUESTIONS = [form.format(subject) for form in FORMS for subject in SUBJECTS]
"""64 of them."""


def as_chat(question: str) -> str:
    """The question in the form that the embedded model was trained on."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
