"""A new installation begins with a default policy that sends little."""

from typing import Any

from django.db import migrations


def create_default(apps: Any, schema_editor: Any) -> None:
    """Make it where nobody flies yet: what flies goes on as it is."""
    policies = apps.get_model("memory", "ContextPolicy").objects
    if policies.exists() or apps.get_model("agents", "Mysis").objects.exists():
        return
    policies.create(
        name="lean",
        strategy="tiered",
        options={"tools": "on_demand"},
        budget_tokens=16_000,
        budget_reserve=4_000,
        is_default=True,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0013_default_policy"),
        ("agents", "0017_tool_policies"),
    ]

    operations = [migrations.RunPython(create_default, migrations.RunPython.noop)]
